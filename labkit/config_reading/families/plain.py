"""Decoders with rotary positions in every layer, grouped by what a missing key means."""

from __future__ import annotations

from labkit.config_reading.family import Family

# No KV-head key means one per query head; no head width means hidden size over heads.
LLAMA_LIKE = Family(
    model_types=(
        "llama", "yi", "aquila", "arcee", "aria", "apertus", "apertus1p5", "cohere", "cohere2",
        "diffllama", "doge", "olmo", "olmo2", "olmo3", "olmoe", "flex_olmo", "granite",
        "granitemoe", "granitemoeshared", "granitemoe_swa", "nanochat", "nemotron",
        "nemotron-nas", "phi", "phi3_v",
        "phi-msft", "phi3", "hyperclovax", "jais2", "internlm", "internlm2", "minicpm",
        "deepseek", "gpt_neox", "gpt_neox_japanese", "persimmon", "gptj", "codegen", "xverse",
        "orion", "exaone", "ministral", "telechat", "skywork", "mobilellm",
    ),
    positions="rope",
    missing_kv_heads="heads",
)  # fmt: skip

# The KV heads have a class default of their own, so a missing key leaves them open.
KV_HEADS_STATED = Family(
    model_types=(
        "mistral", "mixtral", "starcoder2", "phimoe", "phi4_multimodal", "stablelm",
        "stablelm_epoch", "smollm3", "emu3",
        "ernie4_5_moe", "bitnet", "chameleon", "mllama", "glm4_moe", "qwen3_moe", "exaone4",
        "glm4v", "glm4v_moe", "qwen3_vl_moe", "qwen3_omni_moe", "qwen3_omni_moe_thinker",
        "exaone_moe", "granite_swa", "deepseek_ocr2",
    ),
    positions="rope",
)  # fmt: skip

# As above, and a window counts only where `use_sliding_window` says so.
WINDOW_SWITCHED = Family(
    model_types=("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "dots1"),
    positions="rope",
    window_has_switch=True,
)

# The head width has a class default of its own, so a missing key leaves it open.
ALL_STATED = Family(
    model_types=(
        "gemma", "gemma2", "gemma3", "vaultgemma", "glm", "glm4", "helium",
        "seed_oss", "gpt_oss", "minimax_m2", "ministral3", "mistral3", "mistral4", "ernie4_5",
        "cwm", "solar_open", "hy_v3", "internlm3", "iquestcoder", "sarvam_moe",
        "mellum", "qwen3_vl",
    ),
    positions="rope",
    missing_head_dim="open",
)  # fmt: skip

QWEN3 = Family(
    model_types=("qwen3",), positions="rope", missing_head_dim="open", window_has_switch=True
)

HEADS_BUT_WIDTH_STATED = Family(
    model_types=("afmoe", "cohere2_moe"),
    positions="rope",
    missing_kv_heads="heads",
    missing_head_dim="open",
)

# Attention in blocks of `attention_chunk_size`; which layers, only newer files list.
LLAMA4 = Family(
    model_types=("llama4",),
    positions="rope",
    missing_head_dim="open",
    window_keys=("attention_chunk_size",),
    window_is_chunk=True,
)

FAMILIES = (
    LLAMA_LIKE,
    KV_HEADS_STATED,
    WINDOW_SWITCHED,
    ALL_STATED,
    QWEN3,
    HEADS_BUT_WIDTH_STATED,
    LLAMA4,
)
