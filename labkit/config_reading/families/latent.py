"""Multi-head latent attention: one compressed vector a position instead of keys and values."""

from __future__ import annotations

from labkit.config_reading.family import Family
from labkit.config_reading.layouts import Layout
from labkit.config_reading.reader import Reader
from labkit.config_reading.types import FULL


def _two_a_layer(reader: Reader, depth: int | None) -> Layout | None:
    """Each of LongCat's layers holds two attention blocks, each with a cache of its own."""
    del reader
    return None if depth is None else Layout(kinds=(FULL,) * (2 * depth), key="", scope="none")


LATENT_ATTENTION = Family(
    model_types=(
        "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_vl_v2", "kimi_k2", "kimi_vl",
        "glm_moe_dsa", "glm4_moe_lite", "minicpm3", "axk1", "youtu", "sarvam_mla",
    ),
    positions="rope",
    missing_kv_heads="heads",
    missing_head_dim="open",
    latent=True,
)  # fmt: skip

LONGCAT = Family(
    model_types=("longcat_flash",),
    positions="rope",
    missing_kv_heads="heads",
    missing_head_dim="open",
    latent=True,
    layout=_two_a_layer,
)

FAMILIES = (LATENT_ATTENTION, LONGCAT)
