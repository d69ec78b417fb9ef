"""Vocabulary, tying, experts, soft-caps, dtype and quantisation."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.config_reading.reader import Reader

EXPERTS_KEYS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
ROUTED_KEYS = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_top_k",
    "moe_k",
)
KEYS_OF_EXPERTS = frozenset({*EXPERTS_KEYS, *ROUTED_KEYS, "enable_moe_block", "ffn_config"})
VOCABULARY_KEYS = ("vocab_size", "padded_vocab_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Routed experts and how many of them a token uses."""

    num_experts: int | None = None
    experts_per_token: int | None = None


DENSE = Experts()


def read_experts(reader: Reader) -> Experts:
    """Read the routed experts; shared ones are not counted, and zero means none."""
    if KEYS_OF_EXPERTS.isdisjoint(reader.fields):
        return DENSE
    if reader.flag("enable_moe_block") is False:
        return DENSE
    source = reader
    if reader.states("ffn_config"):
        source = reader.table("ffn_config") or reader
    count = _one_for_all_layers(source, EXPERTS_KEYS)
    routed = _one_for_all_layers(source, ROUTED_KEYS)
    if not count:
        return DENSE if count == 0 else Experts(experts_per_token=routed or None)
    if routed is not None and routed > count:
        key = next(key for key in ROUTED_KEYS if source.fields.get(key) is not None)
        total = next(key for key in EXPERTS_KEYS if source.fields.get(key) is not None)
        source.contradict(f"`{key}` must not exceed `{total}`", key, total)
    return Experts(num_experts=count, experts_per_token=routed or None)


def _one_for_all_layers(reader: Reader, keys: tuple[str, ...]) -> int | None:
    """Read a number; a list with one number a layer counts only where all are equal."""
    plain = [key for key in keys if not isinstance(reader.fields.get(key), list)]
    for key in keys:
        values = reader.fields.get(key)
        if not isinstance(values, list):
            continue
        reader.seen.add(key)
        if not values or not all(type(value) is int and value >= 0 for value in values):
            reader.refuse(key, values, must="a whole number or an array of them")
        elif len(set(values)) == 1:
            return int(values[0])
        else:
            reader.note(f"`{reader.prefix}{key}` differs by layer; no one number is given.")
        return None
    return reader.integer(*plain, least=0, most=1_000_000)


def read_softcap(reader: Reader, *keys: str) -> float | None:
    """Read a soft-cap under the first spelling stated; null means none."""
    caps = [reader.number(key) for key in keys]
    return next((cap for cap in caps if cap is not None), None)


def read_vocabulary(reader: Reader) -> int | None:
    """Read the vocabulary's size."""
    return reader.integer(*VOCABULARY_KEYS)


def read_tied(reader: Reader, outer: Reader) -> bool | None:
    """Read tying where the language model states it, else where the whole file does."""
    inner = reader.flag("tie_word_embeddings")
    whole = outer.flag("tie_word_embeddings")
    return whole if inner is None else inner


def read_dtype(reader: Reader, outer: Reader) -> str | None:
    """Read the dtype of the stored weights, under its old or new key."""
    stated = [source.text("dtype", "torch_dtype") for source in (reader, outer)]
    named = (word for word in stated if word is not None and word != "auto")
    return next((word.removeprefix("torch.") for word in named), None)


def read_quantization(reader: Reader, outer: Reader) -> str | None:
    """Read the method, or the bits of an MLX block, which names none."""
    for source in (reader, outer):
        method = _quantization_of(source)
        if method is not None:
            return method
    return None


def _quantization_of(reader: Reader) -> str | None:
    block = reader.table("quantization_config") or reader.table("compression_config")
    mlx = reader.table("quantization")
    method = None if block is None else block.text("quant_method")
    if method is not None:
        return method
    if mlx is not None and "quant_method" in mlx.fields:
        return mlx.text("quant_method")
    bits = None if mlx is None else mlx.integer("bits", most=64)
    if bits is not None:
        return f"mlx-{bits}bit"
    if block is not None or mlx is not None:
        reader.note("The weights are quantised, but no `quant_method` is stated.")
        return "unknown"
    return None
