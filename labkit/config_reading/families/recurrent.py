"""Models without any attention: state-space and RWKV; their cache does not grow."""

from __future__ import annotations

from labkit.config_reading.family import Family
from labkit.config_reading.layouts import Layout
from labkit.config_reading.reader import Reader
from labkit.config_reading.shape import DEEPEST_LAYERS
from labkit.config_reading.types import RECURRENT


def _xlstm_layout(reader: Reader, depth: int | None) -> Layout | None:
    """Read xLSTM's own word for its depth; files written by transformers state both."""
    blocks = reader.integer("num_blocks", most=DEEPEST_LAYERS) or depth
    if blocks is None or depth not in (None, blocks):
        return None
    return Layout(kinds=(RECURRENT,) * blocks, key="num_blocks", scope="none")


FAMILIES = (
    Family(
        model_types=(
            "mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7",
        ),
        positions="none",
        layers="recurrent",
    ),
    Family(
        model_types=("xlstm",), positions="none", layers="recurrent", layout=_xlstm_layout
    ),
)  # fmt: skip
