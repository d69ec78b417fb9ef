"""Prove cache plans by allocation: build a tiny twin, run it, and compare the live cache's bytes.

A twin is an architecture's own default config with every size shrunk. Its config goes through
`fingerprint` like any checkpoint's; the plan that comes back is compared, layer by layer, with
the keys and values that a forward pass leaves in the cache.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from labkit.config_reading.types import LayerCache
from labkit.errors import ConfigError
from labkit.files import data_file
from labkit.models import quiet_transformers
from labkit.spec import ModelSpec, fingerprint

TOKENS = 10  # fewer than any twin's window
LONG_TOKENS = 40  # more than any
LAYERS = 8  # one period of every hybrid's pattern
BYTES_PER_ELEMENT = 4
MOST_PARAMETERS = 20_000_000
_HEADS = 4  # query heads of a twin

EQUAL, DIFFERS, NO_CACHE = "equal", "differs", "no cache"
NO_PLAN, REFUSED, NOT_RUN = "no plan", "refused", "not run"
STATUSES = (EQUAL, DIFFERS, NO_CACHE, NO_PLAN, REFUSED, NOT_RUN)

_LAYER_NAMES = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_QUERY_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_TOKEN_ID = re.compile(r"_token_ids?$|_token_index$|^(?:pad|bos|eos)_idx$")
_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_PLAIN = {"is_encoder_decoder": False, "is_decoder": True, "use_mamba_kernels": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One architecture: what its twin's cache holds, and what the plan says.

    Attributes:
        model_type: The architecture.
        status: `equal`, `differs`, `no cache` where the library hands none out, `no plan` where
            the fingerprint leaves it open, `refused` where the config is not of a causal language
            model, `not run` where no twin could be built or run.
        live_bytes: Bytes of keys and values after `TOKENS` tokens, layer by layer.
        planned_bytes: The same by the plan; None without one.
        live_bytes_long: Bytes over all layers after `LONG_TOKENS`, past every window.
        planned_bytes_long: The same by the plan.
        long_status: `equal`; `between steps` where each windowed layer holds one token less than
            its window, whose place the next token takes; `upper bound` where the file gives a
            window without its layers; or `differs`.
        state_bytes: Bytes of fixed size that the cache keeps beside keys and values.
        kinds: The plan's kind of each layer.
        why: What stopped it, or what differs.
        config: The twin's config.json.
    """

    model_type: str
    status: str
    live_bytes: tuple[int, ...] = ()
    planned_bytes: tuple[int, ...] | None = None
    live_bytes_long: int | None = None
    planned_bytes_long: int | None = None
    long_status: str | None = None
    state_bytes: int = 0
    kinds: tuple[str, ...] = ()
    why: str = ""
    config: Mapping[str, Any] | None = None


def architectures() -> list[str]:
    """Return every model type that transformers builds a causal language model of."""
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    return sorted(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def prove(model_type: str) -> Proof:
    """Build an architecture's twin, run it, and compare its cache with the plan."""
    with quiet_transformers():
        try:
            config = twin_config(model_type)
        # Whatever an architecture's own config code raises is the row's reason.
        except Exception as error:
            return Proof(model_type=model_type, status=NOT_RUN, why=_said(error))
        # A class may fold a key that files state into others of its own.
        own = read_shrinking().own_keys.get(config.model_type, {})
        stated = {**own, **json.loads(config.to_json_string(use_diff=False))}
        if refusal := _refusal(stated):
            return Proof(model_type=model_type, status=REFUSED, why=refusal, config=stated)
        try:
            live, long = (_run(config, tokens=count) for count in (TOKENS, LONG_TOKENS))
        except Exception as error:  # the same for its model code
            return Proof(model_type=model_type, status=NOT_RUN, why=_said(error), config=stated)
    return compare(model_type, stated, live=live, long=long)


def _refusal(stated: Mapping[str, Any]) -> str:
    """Return why a config is refused by the fingerprint, or "" where it is not."""
    try:
        fingerprint(stated)
    except ConfigError as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True)
class Live:
    """Bytes that a cache holds: of keys and values by layer, and of states in all."""

    layers: tuple[int, ...]
    state_bytes: int


def compare(model_type: str, stated: Mapping[str, Any], *, live: Live, long: Live) -> Proof:
    """Return the proof of a config whose cache has been measured."""
    spec = fingerprint(stated)
    if spec.cache_plan is None:
        why = " ".join(spec.notes)
        return Proof(
            model_type=model_type,
            status=NO_PLAN,
            live_bytes=live.layers,
            live_bytes_long=sum(long.layers),
            state_bytes=live.state_bytes,
            why=why,
            config=stated,
        )
    planned = tuple(_layer_bytes(layer, TOKENS) for layer in spec.cache_plan)
    measured = live.layers + (0,) * (len(planned) - len(live.layers))
    wrong = _first_difference(measured, planned)
    status = DIFFERS if wrong else EQUAL
    if wrong and not live.layers:
        status, wrong = NO_CACHE, "the model's answer carries no cache that could be measured"
    return Proof(
        model_type=model_type,
        status=status,
        live_bytes=measured,
        planned_bytes=planned,
        live_bytes_long=sum(long.layers),
        planned_bytes_long=planned_total(spec, LONG_TOKENS),
        long_status=None if status == NO_CACHE else _long_status(sum(long.layers), spec),
        state_bytes=live.state_bytes,
        kinds=tuple(layer.kind for layer in spec.cache_plan),
        why=wrong,
        config=stated,
    )


def _long_status(live_bytes: int, spec: ModelSpec) -> str:
    """Say how the bytes past every window stand to the plan's."""
    planned = planned_total(spec, LONG_TOKENS) or 0
    windowed = [layer for layer in spec.cache_plan or () if layer.window is not None]
    waiting = sum(layer.elements_per_token for layer in windowed) * BYTES_PER_ELEMENT
    if live_bytes == planned:
        return EQUAL
    if live_bytes == planned - waiting:
        return "between steps"
    whole = sum(layer.elements_per_token for layer in spec.cache_plan or ()) * LONG_TOKENS
    if live_bytes == whole * BYTES_PER_ELEMENT:
        return "kept whole"
    window = spec.sliding_window
    scope_open = window.enabled is not False and not window.sliding_layers
    return "upper bound" if scope_open and live_bytes < planned else DIFFERS


def planned_total(spec: ModelSpec, tokens: int) -> int | None:
    """Return the plan's bytes over all layers, in the twin's element size."""
    return spec.cache_bytes(tokens=tokens, bytes_per_element=BYTES_PER_ELEMENT)


def _layer_bytes(layer: LayerCache, tokens: int) -> int:
    kept = tokens if layer.window is None else min(tokens, layer.window)
    return layer.elements_per_token * kept * BYTES_PER_ELEMENT


def _first_difference(live: Sequence[int], planned: Sequence[int]) -> str:
    if len(live) != len(planned):
        return f"{len(live)} layers in the cache, {len(planned)} in the plan"
    pairs = enumerate(zip(live, planned, strict=True))
    wrong = [(i, ours, theirs) for i, (ours, theirs) in pairs if ours != theirs]
    if not wrong:
        return ""
    layer, ours, theirs = wrong[0]
    more = f" and {len(wrong) - 1} more layers" if len(wrong) > 1 else ""
    return f"layer {layer} holds {ours} bytes, the plan says {theirs}{more}"


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def twin_config(model_type: str) -> Any:
    """Return an architecture's default config with every size shrunk."""
    library = importlib.import_module("transformers")
    default = library.CONFIG_MAPPING[model_type]()
    inner = default.get_text_config(decoder=True)
    made = type(inner)(
        **{**dict(_shrunk(inner)), **read_shrinking().own_keys.get(inner.model_type, {})}
    )
    for name, value in _PLAIN.items():
        if hasattr(made, name):
            setattr(made, name, value)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinking:
    """How twins are made: sizes by key, keys of KV heads, and what some architectures need."""

    size_of: Mapping[str, int]
    kv_heads: frozenset[str]
    own_keys: Mapping[str, Mapping[str, Any]]


@cache
def read_shrinking() -> Shrinking:
    """Return how twins are made, from data/allocation/twins.json."""
    data = json.loads(data_file("allocation", "twins.json").read_text(encoding="utf-8"))
    return Shrinking(
        size_of={key: group["size"] for group in data["sizes"] for key in group["keys"]},
        kv_heads=frozenset(data["kv_heads"]),
        own_keys=data["twins"],
    )


def _shrunk(default: Any) -> Iterator[tuple[str, Any]]:
    """Yield the keys that a twin states otherwise than the default config."""
    stated, how = default.to_dict(), read_shrinking()
    layers = next((stated[n] for n in _LAYER_NAMES if isinstance(stated.get(n), int)), None)
    heads = next((stated[n] for n in _QUERY_HEADS if isinstance(stated.get(n), int)), None)
    for name, value in stated.items():
        if name == "head_dim" and "qk_rope_head_dim" in stated:
            yield name, how.size_of["qk_rope_head_dim"]  # there it is the rotary part alone
        elif name in how.kv_heads:
            yield name, _kv_heads(value, heads)
        elif name in how.size_of and isinstance(value, int) and not isinstance(value, bool):
            yield name, how.size_of[name]
        elif isinstance(value, list) and len(value) == layers and layers:
            yield name, _sample(value)
        elif _TOKEN_ID.search(name) and isinstance(value, int | list):
            yield name, _SPECIAL.get(name, 3)


def _kv_heads(value: Any, heads: int | None) -> Any:
    if not isinstance(value, int) or value <= 1:
        return value
    return _HEADS if value == heads else _HEADS // 2


def _sample(per_layer: Sequence[Any]) -> list[Any]:
    """Return the first layers of a list, with every kind in it that a later one has."""
    chosen = list(per_layer[:LAYERS])
    chosen += [per_layer[-1]] * (LAYERS - len(chosen))
    kinds: list[Any] = []
    for value in per_layer:
        if value not in kinds:
            kinds.append(value)
    missing = [kind for kind in kinds if kind not in chosen]
    if len(kinds) <= LAYERS and missing:
        chosen[LAYERS - len(missing) :] = missing
    return chosen


def _run(config: Any, *, tokens: int) -> Live:
    """Build the twin with a fixed seed, run a prompt through it, and measure its cache."""
    torch, library = importlib.import_module("torch"), importlib.import_module("transformers")
    _require_small(config)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(0)
        model = library.AutoModelForCausalLM.from_config(config).float().eval()
        ids = torch.arange(tokens)[None] % 60 + 4
        answer = model(input_ids=ids, use_cache=True)
    return measure(answer)


def _require_small(config: Any) -> None:
    """Refuse a twin that kept some of its architecture's own size, before it takes memory."""
    torch, library = importlib.import_module("torch"), importlib.import_module("transformers")
    with torch.device("meta"):
        outline = library.AutoModelForCausalLM.from_config(config)
    count = sum(parameter.numel() for parameter in outline.parameters())
    if count > MOST_PARAMETERS:
        raise ConfigError(
            f"A twin must have at most {MOST_PARAMETERS} parameters; got {count} for "
            f"model_type={config.model_type!r}. Add its sizes to data/allocation/twins.json."
        )


def measure(answer: Any) -> Live:
    """Return the bytes of whatever cache a model's answer carries."""
    cache = answer.get("past_key_values")
    layers = _layers_of(cache)
    known = {id(tensor) for layer in layers for tensor in layer}
    others = [
        tensor
        for holder in (cache, *(answer.get(name) for name in _STATE_FIELDS))
        for tensor in _tensors(holder)
        if id(tensor) not in known
    ]
    sizes = tuple(sum(t.nbytes for t in layer) for layer in layers)
    return Live(sizes, sum(t.nbytes for t in others))


_STATE_FIELDS = ("cache_params", "state", "mems", "past_buckets_states", "rnn_state")


def _layers_of(cache: Any) -> list[list[Any]]:
    """Return the keys and values of each layer of a cache."""
    torch = importlib.import_module("torch")
    if cache is None:
        return []
    if isinstance(cache, tuple | list):
        pairs = [list(layer[:2]) for layer in cache]
    else:
        pairs = [
            [getattr(layer, name, None) for name in ("keys", "values")]
            for layer in getattr(cache, "layers", ())
        ]
    return [[t for t in pair if torch.is_tensor(t)] for pair in pairs]


def _tensors(holder: Any, depth: int = 0) -> Iterator[Any]:
    """Yield every tensor inside a cache, wherever it hides."""
    torch = importlib.import_module("torch")
    if torch.is_tensor(holder):
        yield holder
    elif depth > 4 or holder is None or isinstance(holder, str | int | float | bool):
        return
    elif isinstance(holder, Mapping):
        for value in holder.values():
            yield from _tensors(value, depth + 1)
    elif isinstance(holder, list | tuple):
        for value in holder:
            yield from _tensors(value, depth + 1)
    elif hasattr(holder, "__dict__"):
        yield from _tensors(vars(holder), depth + 1)


def to_row(proof: Proof) -> dict[str, Any]:
    """Return a proof as it stands in data/allocation/allocation.json."""
    row = {field.name: getattr(proof, field.name) for field in fields(proof)}
    row["live_total"] = sum(proof.live_bytes)
    row["planned_total"] = None if proof.planned_bytes is None else sum(proof.planned_bytes)
    row["twin_of"] = None if proof.config is None else proof.config["model_type"]
    row["config"] = None if proof.config is None else _without_noise(proof.config)
    return row


def _without_noise(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config without what is empty, switched off, or about labels."""
    return {
        name: value
        for name, value in config.items()
        if value not in (None, False, {}, []) and "label" not in name and name not in _NOISE
    }


_NOISE = ("_name_or_path", "architectures", "chunk_size_feed_forward", "return_dict")


def document(proofs: Sequence[Proof], *, made_utc: str) -> dict[str, Any]:
    """Return what data/allocation/allocation.json holds: the rows, their counts and versions."""
    counts = {status: sum(proof.status == status for proof in proofs) for status in STATUSES}
    return {
        "made_utc": made_utc,
        "versions": versions(),
        "tokens": TOKENS,
        "long_tokens": LONG_TOKENS,
        "bytes_per_element": BYTES_PER_ELEMENT,
        "summary": {"architectures": len(proofs), **counts},
        "estimators": {},
        "rows": [to_row(proof) for proof in proofs],
    }


def versions() -> dict[str, str]:
    """Return the versions that a proof depends on."""
    found = {name: importlib.metadata.version(name) for name in ("transformers", "torch")}
    return {name: version.partition("+")[0] for name, version in found.items()}
