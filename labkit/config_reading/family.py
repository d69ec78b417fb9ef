"""What the code of a model family fixes and no config states, and where it is looked up.

A family never supplies a number. It says how to read the file: which scheme of positions
the code has, and whether a missing key has a meaning of its own (no key for KV heads in a
family that has always one per query head) or just leaves a figure open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from labkit.config_reading.layouts import Layout
from labkit.config_reading.reader import Reader
from labkit.config_reading.types import RopeScaling


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How to read the configs of some model types.

    Attributes:
        model_types: Values of `model_type`; `_text` endings are found without being listed.
        positions: The scheme, or how to tell it from the file.
        missing_kv_heads: `heads` where no key means one KV head per query head.
        missing_head_dim: `ratio` where no key means hidden size over heads.
        head_dim_keys: Spellings of the head width.
        window_keys: Spellings of the window.
        window_is_chunk: The window key limits attention to blocks, not to a sliding span.
        window_has_switch: `use_sliding_window` decides, and no key leaves it open.
        layers: `attention` (every layer, unless the file lists others), `listed` (the file
            must say which), `both` (every layer has attention and a state), `recurrent`.
        attention_slides: The layers a hybrid calls attention see a window only.
        stated_apart: Pairs of a layer kind and a key; without the key that kind is open.
        shares_layers: Layers share caches, and no `num_kv_shared_layers` leaves open which.
        latent: The cache is the compressed vector of multi-head latent attention.
        kv_heads: Reads KV heads in spellings of its own; gets the number of query heads.
        layout: Reads the layer list in a spelling of its own; gets the depth.
        rope_scaling: Reads a rescaling stated outside `rope_scaling`.
    """

    model_types: tuple[str, ...]
    positions: str | Callable[[Reader], str | None]
    missing_kv_heads: Literal["heads", "open"] = "open"
    missing_head_dim: Literal["ratio", "open"] = "ratio"
    head_dim_keys: tuple[str, ...] = ("head_dim",)
    window_keys: tuple[str, ...] = ("sliding_window", "sliding_window_size")
    window_is_chunk: bool = False
    window_has_switch: bool = False
    layers: Literal["attention", "listed", "both", "recurrent"] = "attention"
    attention_slides: bool = False
    stated_apart: tuple[tuple[str, str], ...] = ()
    shares_layers: bool = False
    latent: bool = False
    kv_heads: Callable[[Reader, int | None], int | None] | None = None
    layout: Callable[[Reader, int | None], Layout | None] | None = None
    rope_scaling: Callable[[Reader], RopeScaling | None] | None = None


def plain_name(model_type: str) -> str:
    """Return a model type or architecture without case, separators and text suffix."""
    name = model_type.lower()
    for ending in ("_text_model", "_text"):
        name = name.removesuffix(ending)
    return name.translate(_NO_SEPARATORS)


_NO_SEPARATORS = str.maketrans("", "", "_-.")
