"""Encoders of the BERT kind trained as decoders: `is_decoder` says so, the rest is GPT-2's."""

from __future__ import annotations

from labkit.config_reading.family import Family

LEARNED = Family(
    model_types=(
        "bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie",
        "git", "megatron-bert", "rembert", "roberta", "roberta-prelayernorm", "roc_bert",
        "xlm-roberta", "xlm-roberta-xl", "xmod",
    ),
    positions="learned",
    missing_kv_heads="heads",
)  # fmt: skip

ROTARY = Family(model_types=("roformer",), positions="rope", missing_kv_heads="heads")

FAMILIES = (LEARNED, ROTARY)
