"""Attention beside state-space, linear-attention or convolution layers."""

from __future__ import annotations

from labkit.config_reading.family import Family
from labkit.config_reading.layouts import BOTH, Layout
from labkit.config_reading.reader import Reader
from labkit.config_reading.types import RECURRENT


def _granite_positions(reader: Reader) -> str | None:
    word = reader.text("position_embedding_type")
    return {"rope": "rope", "nope": "none"}.get(word or "")


def _zamba2_positions(reader: Reader) -> str | None:
    rotary = reader.flag("use_mem_rope")
    return None if rotary is None else "rope" if rotary else "none"


def _kimi_positions(reader: Reader) -> str | None:
    without = reader.flag("mla_use_nope")
    return None if without is None else "none" if without else "rope"


def _zamba_layout(reader: Reader, depth: int | None) -> Layout | None:
    """Zamba's attention layers are hybrids: a state-space layer with shared attention before."""
    period = reader.integer("attn_layer_period")
    offset = reader.integer("attn_layer_offset", least=0)
    if depth is None or period is None or offset is None or reader.get("layers_block_type"):
        return None
    kinds = tuple(BOTH if index % period == offset else RECURRENT for index in range(depth))
    return Layout(kinds=kinds, key="attn_layer_period", scope="pattern")


NEMOTRON_H = Family(
    model_types=("nemotron_h",),
    positions="none",
    missing_head_dim="open",
    head_dim_keys=("head_dim", "attention_head_dim"),
    layers="listed",
)
JAMBA = Family(model_types=("jamba",), positions="none", layers="listed")
ZAMBA = Family(
    model_types=("zamba",),
    positions="none",
    missing_head_dim="open",
    head_dim_keys=("attention_head_dim",),
    layers="listed",
    layout=_zamba_layout,
)
ZAMBA2 = Family(
    model_types=("zamba2",),
    positions=_zamba2_positions,
    missing_kv_heads="heads",
    missing_head_dim="open",
    head_dim_keys=("attention_head_dim",),
    layers="listed",
)
BAMBA = Family(
    model_types=("bamba", "minimax", "minimax_text_01"), positions="rope", layers="listed"
)
GRANITE_HYBRID = Family(
    model_types=("granitemoehybrid",),
    positions=_granite_positions,
    missing_kv_heads="heads",
    layers="listed",
)
FALCON_H1 = Family(model_types=("falcon_h1",), positions="rope", layers="both")
LINEAR_ATTENTION = Family(
    model_types=("qwen3_next", "qwen3_5", "qwen3_5_moe"),
    positions="rope",
    missing_head_dim="open",
    layers="listed",
)
OLMO_HYBRID = Family(
    model_types=("olmo_hybrid",), positions="rope", missing_kv_heads="heads", layers="listed"
)
KIMI_LINEAR = Family(
    model_types=("kimi_linear", "kimi_k3"),
    positions=_kimi_positions,
    missing_head_dim="open",
    layers="listed",
    latent=True,
)
LFM2 = Family(model_types=("lfm2", "lfm2_moe"), positions="rope", layers="listed")
GRIFFIN = Family(
    model_types=("recurrent_gemma",),
    positions="rope",
    missing_kv_heads="heads",
    window_keys=("attention_window_size",),
    layers="listed",
    attention_slides=True,
)

FAMILIES = (
    NEMOTRON_H,
    JAMBA,
    ZAMBA,
    ZAMBA2,
    BAMBA,
    GRANITE_HYBRID,
    FALCON_H1,
    LINEAR_ATTENTION,
    OLMO_HYBRID,
    KIMI_LINEAR,
    LFM2,
    GRIFFIN,
)
