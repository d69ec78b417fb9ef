"""Which layer is of which kind: every spelling that config files use for it.

`read_layout` asks the spellings in order. Adding one is a function and a line in
`_SPELLINGS`; a spelling that only one family has is that family's own `layout`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from labkit.config_reading.reader import Reader, shown
from labkit.config_reading.types import (
    CHUNKED,
    CONVOLUTION,
    CROSS,
    FULL,
    NOTHING,
    RECURRENT,
    SLIDING,
    UNKNOWN,
)

BOTH: Final = "full+recurrent"  # attention and a recurrent state side by side in one layer

KIND_OF_WORD: Final = {
    "full_attention": FULL,
    "attention": FULL,
    "global": FULL,
    "global_attention": FULL,
    "indexed_attention": FULL,  # selects what it reads, keeps all
    "deepseek_sparse_attention": FULL,
    "qwen_sparse_attention": FULL,
    "sliding_attention": SLIDING,
    "local": SLIDING,
    "local_attention": SLIDING,
    "chunked_attention": CHUNKED,
    "linear_attention": RECURRENT,
    "mamba": RECURRENT,
    "mamba2": RECURRENT,
    "recurrent": RECURRENT,
    "conv": CONVOLUTION,
    "hybrid": BOTH,
    "moe": NOTHING,
    "mlp": NOTHING,
}
KIND_OF_LETTER: Final = {"*": FULL, "M": RECURRENT, "-": NOTHING, "E": NOTHING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The kind of each layer, and how the file said so.

    Attributes:
        kinds: One kind a layer.
        key: The key that lists them.
        scope: `layer_list` or `pattern`, as in `SlidingWindow.scope_from_file`.
        kv_heads: KV heads a layer where they differ, None for a layer without attention.
        heads: Query heads a layer where they differ.
    """

    kinds: tuple[str, ...]
    key: str
    scope: str = "layer_list"
    kv_heads: tuple[int | None, ...] | None = None
    heads: tuple[int, ...] | None = None


def read_layout(reader: Reader, depth: int | None) -> Layout | None:
    """Return the layout that the file lists, None where it lists none."""
    for key, read in _SPELLINGS:
        if key in reader.fields and (layout := read(reader, depth)) is not None:
            return layout
    return None


def repeat_to(pattern: tuple[str, ...], depth: int) -> tuple[str, ...]:
    """Return the pattern repeated to `depth` layers."""
    return (pattern * (depth // len(pattern) + 1))[:depth]


def kinds_by(depth: int, chosen: frozenset[int], *, kind: str, other: str) -> tuple[str, ...]:
    """Return `kind` for the chosen layers and `other` for the rest."""
    return tuple(kind if index in chosen else other for index in range(depth))


def kinds_of_words(reader: Reader, key: str, values: list[object]) -> tuple[str, ...] | None:
    """Translate a list of words; a word nobody knows is noted and its layer unknown."""
    kinds: list[str] = []
    strange: list[object] = []
    for value in values:
        kind = KIND_OF_WORD.get(value) if isinstance(value, str) else None
        if kind is None:
            strange.append(value)
        kinds.append(kind or UNKNOWN)
    if not all(isinstance(value, str) for value in strange):
        reader.refuse(key, values, must="an array of words")
        return None
    if strange:
        words = ", ".join(dict.fromkeys(shown(value) for value in strange))
        reader.note(
            f"`{reader.prefix}{key}` names {words}, which labkit does not know; "
            f"what {len(strange)} of {len(values)} layers keep is not known."
        )
    return tuple(kinds)


def _layer_words(key: str) -> Callable[[Reader, int | None], Layout | None]:
    def read(reader: Reader, depth: int | None) -> Layout | None:
        values = reader.items(key)
        if not values:
            return None
        extra = reader.integer("num_nextn_predict_layers", least=0) or 0
        if depth is not None and depth < len(values) <= depth + extra:
            values = values[:depth]  # the rest are prediction heads behind the decoder
        if not _fits(reader, key, count=len(values), depth=depth):
            return None
        kinds = kinds_of_words(reader, key, values)
        return None if kinds is None else Layout(kinds=kinds, key=key)

    return read


def _hybrid_override_pattern(reader: Reader, depth: int | None) -> Layout | None:
    key = "hybrid_override_pattern"
    letters = reader.text(key)
    if not letters or not _fits(reader, key, count=len(letters), depth=depth):
        return None
    strange = sorted(set(letters) - KIND_OF_LETTER.keys())
    if strange:
        reader.note(
            f"`{reader.prefix}{key}` uses {', '.join(map(shown, strange))}, which labkit does "
            "not know; what those layers keep is not known."
        )
    kinds = tuple(KIND_OF_LETTER.get(letter, UNKNOWN) for letter in letters)
    return Layout(kinds=kinds, key=key)


def _hybrid_layer_pattern(reader: Reader, depth: int | None) -> Layout | None:
    return _zeros_and_ones(reader, depth, key="hybrid_layer_pattern", zero=FULL, one=SLIDING)


def _attention_type_list(reader: Reader, depth: int | None) -> Layout | None:
    return _zeros_and_ones(reader, depth, key="attn_type_list", zero=RECURRENT, one=FULL)


def _zeros_and_ones(
    reader: Reader, depth: int | None, *, key: str, zero: str, one: str
) -> Layout | None:
    values = reader.items(key)
    if not values or not _fits(reader, key, count=len(values), depth=depth):
        return None
    if not all(type(value) is int and value in (0, 1) for value in values):
        reader.refuse(key, values, must="an array of 0 and 1")
        return None
    return Layout(kinds=tuple(one if value == 1 else zero for value in values), key=key)


def _linear_attention_lists(reader: Reader, depth: int | None) -> Layout | None:
    """Read the one-based lists of Kimi Linear."""
    inner = reader.table("linear_attn_config")
    if inner is None or depth is None:
        return None
    full = inner.indices("full_attn_layers", depth=depth, base=1)
    linear = inner.indices("kda_layers", depth=depth, base=1)
    if full is None:
        return None
    if linear is not None and (full & linear or len(full) + len(linear) != depth):
        inner.contradict(
            f"The two lists must share out the {depth} layers, each once",
            "full_attn_layers",
            "kda_layers",
        )
    kinds = kinds_by(depth, full, kind=FULL, other=RECURRENT)
    return Layout(kinds=kinds, key="linear_attn_config")


def _listed_indices(
    key: str, *, kind: str, other: str
) -> Callable[[Reader, int | None], Layout | None]:
    def read(reader: Reader, depth: int | None) -> Layout | None:
        if depth is None or reader.get(key) is None:
            return None
        chosen = reader.indices(key, depth=depth)
        if chosen is None:
            return None
        return Layout(kinds=kinds_by(depth, chosen, kind=kind, other=other), key=key)

    return read


def _attention_period(reader: Reader, depth: int | None) -> Layout | None:
    period = reader.integer("attn_layer_period")
    offset = reader.integer("attn_layer_offset", least=0)
    if depth is None or period is None or offset is None:
        return None
    if offset >= period:
        must = "`attn_layer_offset` must be smaller than `attn_layer_period`"
        reader.contradict(must, "attn_layer_offset", "attn_layer_period")
        return None
    chosen = frozenset(range(offset, depth, period))
    kinds = kinds_by(depth, chosen, kind=FULL, other=RECURRENT)
    return Layout(kinds=kinds, key="attn_layer_period", scope="pattern")


def _full_attention_interval(reader: Reader, depth: int | None) -> Layout | None:
    interval = reader.integer("full_attention_interval")
    if depth is None or interval is None:
        return None
    chosen = frozenset(range(interval - 1, depth, interval))
    kinds = kinds_by(depth, chosen, kind=FULL, other=RECURRENT)
    return Layout(kinds=kinds, key="full_attention_interval", scope="pattern")


def _block_types(reader: Reader, depth: int | None) -> Layout | None:
    """Read the short pattern that RecurrentGemma repeats over its depth."""
    values = reader.items("block_types")
    if not values or depth is None:
        return None
    kinds = kinds_of_words(reader, "block_types", values)
    if kinds is None:
        return None
    return Layout(kinds=repeat_to(kinds, depth), key="block_types", scope="pattern")


def _block_configs(reader: Reader, depth: int | None) -> Layout | None:
    """Read the searched blocks of DeciLM and Nemotron-NAS: skipped, linear or grouped."""
    key = "block_configs"
    blocks = reader.items(key)
    if not blocks or not _fits(reader, key, count=len(blocks), depth=depth):
        return None
    heads = reader.integer("num_attention_heads")
    kinds: list[str] = []
    kv_heads: list[int | None] = []
    for index, block in enumerate(blocks):
        attention = block.get("attention") if isinstance(block, dict) else None
        if not isinstance(attention, dict):
            reader.refuse(f"{key}[{index}].attention", attention, must="an object")
            return None
        inner = Reader(attention, prefix=f"{reader.prefix}{key}[{index}].", parent=reader)
        kind, count = _block_attention(inner, heads)
        kinds.append(kind)
        kv_heads.append(count)
    return Layout(kinds=tuple(kinds), key=key, kv_heads=tuple(kv_heads))


def _block_attention(inner: Reader, heads: int | None) -> tuple[str, int | None]:
    if inner.get("no_op") is True or inner.get("replace_with_linear") is True:
        return NOTHING, None
    stated = inner.integer("num_key_value_heads")
    group = inner.integer("n_heads_in_group")
    if stated is None and group is not None and heads is not None:
        if heads % group:
            inner.problems.append(
                f"`num_attention_heads` must be a multiple of `{inner.prefix}n_heads_in_group`; "
                f"got num_attention_heads={heads}, n_heads_in_group={group}."
            )
            return FULL, None
        stated = heads // group
    return FULL, stated


def _fits(reader: Reader, key: str, *, count: int, depth: int | None) -> bool:
    if depth is None or count == depth:
        return True
    reader.problems.append(
        f"`{reader.prefix}{key}` must name each layer once; got {count} entries for "
        f"num_hidden_layers={depth}. Check that both come from one config.json."
    )
    return False


# The key whose presence decides, and the function that reads it; the first that answers wins.
_SPELLINGS: Final[tuple[tuple[str, Callable[[Reader, int | None], Layout | None]], ...]] = (
    ("layer_types", _layer_words("layer_types")),
    ("layers_block_type", _layer_words("layers_block_type")),
    ("attention_layers", _layer_words("attention_layers")),
    ("hybrid_override_pattern", _hybrid_override_pattern),
    ("hybrid_layer_pattern", _hybrid_layer_pattern),
    ("attn_type_list", _attention_type_list),
    ("linear_attn_config", _linear_attention_lists),
    ("cross_attention_layers", _listed_indices("cross_attention_layers", kind=CROSS, other=FULL)),
    ("attn_layer_indices", _listed_indices("attn_layer_indices", kind=FULL, other=RECURRENT)),
    ("full_attn_idxs", _listed_indices("full_attn_idxs", kind=FULL, other=CONVOLUTION)),
    ("hybrid_layer_ids", _listed_indices("hybrid_layer_ids", kind=BOTH, other=RECURRENT)),
    ("attn_layer_period", _attention_period),
    ("full_attention_interval", _full_attention_interval),
    ("block_types", _block_types),
    ("block_configs", _block_configs),
)
