"""Models without any attention: state-space and RWKV; their cache does not grow."""

from __future__ import annotations

from labkit.config_reading.family import Family

FAMILIES = (
    Family(
        model_types=(
            "mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7",
            "xlstm",
        ),
        positions="none",
        layers="recurrent",
    ),
)  # fmt: skip
