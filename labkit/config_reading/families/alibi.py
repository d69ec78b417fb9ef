"""Families whose positions the file itself has to tell: ALiBi here, RoPE or a table there."""

from __future__ import annotations

from typing import Final

from labkit.config_reading.family import Family
from labkit.config_reading.reader import Reader

BAICHUAN_POSITIONS: Final = {4096: "rope", 5120: "alibi"}  # by width: the 7B and the 13B code


def _alibi_or_rope(reader: Reader) -> str | None:
    alibi = reader.flag("alibi")
    return None if alibi is None else "alibi" if alibi else "rope"


def _falcon_kv_heads(reader: Reader, heads: int | None) -> int | None:
    """The new decoder counts KV heads; the old one has one or all, by `multi_query`."""
    if reader.flag("new_decoder_architecture"):
        reader.flag("multi_query")
        return reader.integer("num_kv_heads", "n_head_kv", "num_key_value_heads")
    multi_query = reader.flag("multi_query")
    if multi_query is None:
        return None
    return 1 if multi_query else heads


def _mpt_positions(reader: Reader) -> str | None:
    """ALiBi or RoPE switched on in `attn_config` wins over the learned table."""
    inner = reader.table("attn_config")
    learned = reader.flag("learned_pos_emb")
    alibi = inner.flag("alibi") if inner else reader.flag("alibi")
    if alibi:
        return "alibi"
    if inner and inner.flag("rope"):
        return "rope"
    if alibi is None or learned is None:
        return None
    return "learned" if learned else "none"


def _attn_config_kv_heads(reader: Reader, heads: int | None) -> int | None:
    """MPT and DBRX keep the count in `attn_config`, and MPT also names the kind."""
    inner = reader.table("attn_config")
    if inner is None:
        return None
    stated = inner.integer("kv_n_heads")
    kind = inner.text("attn_type")
    if kind == "multihead_attention":
        return heads
    return 1 if kind == "multiquery_attention" else stated


def _baichuan_positions(reader: Reader) -> str | None:
    width = reader.integer("hidden_size")
    return None if width is None else BAICHUAN_POSITIONS.get(width)


def _stated_position_word(reader: Reader) -> str | None:
    word = reader.text("position_embedding_type")
    return {"alibi": "alibi", "learned": "learned"}.get(word or "")


BLOOM = Family(model_types=("bloom",), positions="alibi", missing_kv_heads="heads")
FALCON = Family(
    model_types=("falcon", "RefinedWeb", "RefinedWebModel"),
    positions=_alibi_or_rope,
    kv_heads=_falcon_kv_heads,
)
MPT = Family(model_types=("mpt",), positions=_mpt_positions, kv_heads=_attn_config_kv_heads)
DBRX = Family(model_types=("dbrx",), positions="rope", kv_heads=_attn_config_kv_heads)
BAICHUAN = Family(
    model_types=("baichuan",), positions=_baichuan_positions, missing_kv_heads="heads"
)
JAIS = Family(model_types=("jais",), positions=_stated_position_word, missing_kv_heads="heads")

FAMILIES = (BLOOM, FALCON, MPT, DBRX, BAICHUAN, JAIS)
