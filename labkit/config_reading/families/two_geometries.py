"""Families whose layers differ: sliding and full ones in heads or widths, or shared caches."""

from __future__ import annotations

from labkit.config_reading.family import Family
from labkit.config_reading.types import FULL, SLIDING

FAMILIES = (
    Family(model_types=("gemma3n",), positions="rope", missing_head_dim="open", shares_layers=True),
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
