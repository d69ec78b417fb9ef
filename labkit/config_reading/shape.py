"""Depth, width and heads, in every spelling, and the arithmetic that must hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from labkit.config_reading.family import Family
from labkit.config_reading.reader import Reader, shown

DEEPEST_LAYERS: Final = 10_000
WIDEST_ELEMENTS: Final = 10_000_000
MOST_HEADS: Final = 100_000

DEPTH_KEYS: Final = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "num_transformer_layers",
)
WIDTH_KEYS: Final = ("hidden_size", "n_embd", "n_embed", "d_model", "model_dim")
HEADS_KEYS: Final = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
KV_HEADS_KEYS: Final = ("num_key_value_heads", "n_head_kv", "num_kv_heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes that every layer shares; a part that the file leaves open is None."""

    num_layers: int | None
    hidden_size: int | None
    num_attention_heads: int | None
    num_kv_heads: int | None
    head_dim: int | None


def read_depth(reader: Reader) -> int | None:
    """Return the number of layers."""
    return reader.integer(*DEPTH_KEYS, most=DEEPEST_LAYERS)


def read_shape(reader: Reader, family: Family | None, *, depth: int | None) -> Shape:
    """Read the sizes, derive only what the family's code derives, and check the arithmetic."""
    width = reader.integer(*WIDTH_KEYS, most=WIDEST_ELEMENTS)
    if family is not None and family.layers == "recurrent":
        return Shape(
            num_layers=depth,
            hidden_size=width,
            num_attention_heads=None,
            num_kv_heads=None,
            head_dim=None,
        )
    heads = reader.integer(*HEADS_KEYS, most=MOST_HEADS)
    kv_heads = _read_kv_heads(reader, family, heads)
    _check_kv_heads(reader, heads, kv_heads)
    return Shape(
        num_layers=depth,
        hidden_size=width,
        num_attention_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=_read_head_dim(reader, family, width=width, heads=heads),
    )


def _read_kv_heads(reader: Reader, family: Family | None, heads: int | None) -> int | None:
    if family is not None and family.kv_heads is not None:
        own = family.kv_heads(reader, heads)
        return own or reader.integer("num_key_value_heads", most=MOST_HEADS)
    keys = [key for key in KV_HEADS_KEYS if not isinstance(reader.fields.get(key), list)]
    stated = reader.integer(*keys, most=MOST_HEADS)
    if stated is None and family is not None and family.missing_kv_heads == "heads":
        if any(isinstance(reader.fields.get(key), list) for key in KV_HEADS_KEYS):
            return None
        if "block_configs" in reader.fields:
            return None
        return heads
    return stated


def _check_kv_heads(reader: Reader, heads: int | None, kv_heads: int | None) -> None:
    if heads is None or kv_heads is None:
        return
    if kv_heads > heads:
        must = "There cannot be more `num_key_value_heads` than `num_attention_heads`"
    elif heads % kv_heads:
        must = "`num_attention_heads` must be a multiple of `num_key_value_heads`"
    else:
        return
    reader.problems.append(
        f"{must}; got num_attention_heads={heads}, num_key_value_heads={kv_heads}. "
        "Check that both come from one config.json."
    )


def _read_head_dim(
    reader: Reader, family: Family | None, *, width: int | None, heads: int | None
) -> int | None:
    keys = ("head_dim",) if family is None else family.head_dim_keys
    stated = reader.integer(*keys, most=WIDEST_ELEMENTS)
    if stated is not None or family is None or family.missing_head_dim == "open":
        return stated
    if width is None or heads is None:
        return None
    if width % heads:
        width_key = next(key for key in WIDTH_KEYS if reader.fields.get(key) is not None)
        heads_key = next(key for key in HEADS_KEYS if reader.fields.get(key) is not None)
        reader.problems.append(
            f"`{width_key}` must be a multiple of `{heads_key}` where no head_dim is given; got "
            f"{width_key}={shown(width)}, {heads_key}={shown(heads)}. "
            "Check that both come from one config.json."
        )
        return None
    return width // heads
