"""Multi-head latent attention: one compressed vector a position instead of keys and values."""

from __future__ import annotations

from labkit.config_reading.family import Family

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

FAMILIES = (LATENT_ATTENTION,)
