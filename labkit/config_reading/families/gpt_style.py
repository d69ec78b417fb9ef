"""GPT-2 and its kin: learned or sinusoidal positions, one KV head per query head."""

from __future__ import annotations

from labkit.config_reading.family import Family
from labkit.config_reading.layouts import Layout, kinds_of_words
from labkit.config_reading.reader import Reader


def _one_head_if_multi_query(reader: Reader, heads: int | None) -> int | None:
    """GPT-BigCode has no key for KV heads, only a switch between one and all."""
    multi_query = reader.flag("multi_query")
    if multi_query is None:
        return None
    return 1 if multi_query else heads


def _expanded_attention_types(reader: Reader, depth: int | None) -> Layout | None:
    """GPT-Neo lists `[[["global", "local"], 12]]`: a pattern and how often it repeats."""
    groups = reader.items("attention_types")
    if groups is None or depth is None:
        return None
    words: list[object] = []
    for group in groups:
        match group:
            case [[*pattern], int(times)] if 0 < times <= depth and len(pattern) <= depth:
                words.extend(pattern * times)
            case _:
                reader.refuse("attention_types", group, must="pairs of a pattern and a count")
                return None
    if len(words) != depth:
        reader.problems.append(
            f"`{reader.prefix}attention_types` must name each layer once; got {len(words)} "
            f"entries for num_layers={depth}. Check that both come from one config.json."
        )
        return None
    kinds = kinds_of_words(reader, "attention_types", words)
    return None if kinds is None else Layout(kinds=kinds, key="attention_types")


LEARNED = Family(
    model_types=("gpt2", "gpt-sw3", "opt", "openai-gpt", "biogpt"),
    positions="learned",
    missing_kv_heads="heads",
)
BIGCODE = Family(
    model_types=("gpt_bigcode",), positions="learned", kv_heads=_one_head_if_multi_query
)
NEO = Family(
    model_types=("gpt_neo",),
    positions="learned",
    missing_kv_heads="heads",
    window_keys=("window_size",),
    layout=_expanded_attention_types,
)
SINUSOIDAL = Family(model_types=("xglm", "ctrl"), positions="sinusoidal", missing_kv_heads="heads")

FAMILIES = (LEARNED, BIGCODE, NEO, SINUSOIDAL)
