"""Families with rotary positions and key names of their own."""

from __future__ import annotations

from dataclasses import replace

from labkit.config_reading.family import Family
from labkit.config_reading.layouts import Layout
from labkit.config_reading.reader import Reader
from labkit.config_reading.shape import MOST_HEADS
from labkit.config_reading.types import FULL, SHARED, RopeScaling


def _chatglm_kv_heads(reader: Reader, heads: int | None) -> int | None:
    """`multi_query_attention` groups heads; `multi_query_group_num` says into how many."""
    grouped = reader.flag("multi_query_attention")
    groups = reader.integer("multi_query_group_num")
    if grouped is None:
        return None
    return groups if grouped else heads


def _qwen_dynamic_ntk(reader: Reader) -> RopeScaling | None:
    """The first Qwen has a switch instead of a block; `seq_length` is the trained length."""
    if not reader.flag("use_dynamic_ntk"):
        return None
    return RopeScaling(kind="dynamic", original_max_position=reader.integer("seq_length"))


def _openelm_layout(reader: Reader, depth: int | None) -> Layout | None:
    """OpenELM scales its heads with depth and lists both kinds for each layer."""
    layout = _full_with_kv_heads(reader, depth, key="num_kv_heads")
    queries = _counts(reader, depth, key="num_query_heads")
    if layout is None or queries is None or layout.kv_heads is None:
        return layout
    if any(many % (few or 1) for many, few in zip(queries, layout.kv_heads, strict=False)):
        must = "Each of `num_query_heads` must be a multiple of its entry in `num_kv_heads`"
        reader.contradict(must, "num_query_heads", "num_kv_heads")
        return None
    return replace(layout, heads=queries)


def _decilm_layout(reader: Reader, depth: int | None) -> Layout | None:
    return _full_with_kv_heads(reader, depth, key="num_key_value_heads_per_layer")


def _full_with_kv_heads(reader: Reader, depth: int | None, *, key: str) -> Layout | None:
    counts = _counts(reader, depth, key=key)
    if counts is None:
        return None
    return Layout(kinds=(FULL,) * len(counts), key=key, kv_heads=counts)


def _counts(reader: Reader, depth: int | None, *, key: str) -> tuple[int, ...] | None:
    values = reader.items(key)
    if values is None:
        return None
    counts = tuple(v for v in values if type(v) is int and 0 < v <= MOST_HEADS)
    if len(counts) != depth or len(counts) != len(values):
        reader.refuse(key, values, must=f"an array with the heads of each of {depth} layers")
        return None
    return counts


def _hunyuan_layout(reader: Reader, depth: int | None) -> Layout | None:
    """Cross-layer attention: only every `cla_share_factor`-th layer keeps a cache."""
    factor = reader.integer("cla_share_factor")
    if not reader.flag("use_cla") or factor is None or depth is None:
        return None
    kinds = tuple(SHARED if index % factor else FULL for index in range(depth))
    return Layout(kinds=kinds, key="cla_share_factor", scope="pattern")


CHATGLM = Family(
    model_types=("chatglm",),
    positions="rope",
    missing_head_dim="open",
    head_dim_keys=("kv_channels",),
    kv_heads=_chatglm_kv_heads,
)
QWEN = Family(
    model_types=("qwen",),
    positions="rope",
    missing_kv_heads="heads",
    head_dim_keys=("head_dim", "kv_channels"),
    rope_scaling=_qwen_dynamic_ntk,
)
OPENELM = Family(
    model_types=("openelm",),
    positions="rope",
    missing_head_dim="open",
    layers="listed",
    layout=_openelm_layout,
)
DECILM = Family(
    model_types=("deci", "decilm"), positions="rope", layers="listed", layout=_decilm_layout
)
HUNYUAN = Family(
    model_types=("hunyuan", "hunyuan_v1_dense", "hunyuan_v1_moe"),
    positions="rope",
    missing_kv_heads="heads",
    head_dim_keys=("head_dim", "attention_head_dim"),
    layout=_hunyuan_layout,
)
JETMOE = Family(
    model_types=("jetmoe",),
    positions="rope",
    missing_head_dim="open",
    head_dim_keys=("kv_channels",),
)

FAMILIES = (CHATGLM, QWEN, OPENELM, DECILM, HUNYUAN, JETMOE)
