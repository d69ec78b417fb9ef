"""Families whose sliding and full layers differ in heads or widths."""

from __future__ import annotations

from labkit.config_reading.family import Family
from labkit.config_reading.types import FULL, SLIDING

FAMILIES = (
    Family(
        model_types=("gemma4", "gemma4_unified"),
        positions="rope",
        missing_head_dim="open",
        stated_apart=((FULL, "global_head_dim"),),
    ),
    Family(
        model_types=("mimo_v2_flash",),
        positions="rope",
        missing_head_dim="open",
        stated_apart=((SLIDING, "swa_num_key_value_heads"),),
    ),
)
