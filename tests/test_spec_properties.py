"""Fingerprints: properties that hold for every config, and that no key is dropped in silence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support import read_cases

from labkit.config_reading.families import BY_NAME, family_of
from labkit.config_reading.keys import IGNORED, OUTSIDE
from labkit.config_reading.refusals import OTHER_DOCUMENTS
from labkit.errors import ConfigError
from labkit.spec import ModelSpec, fingerprint

GOLDEN = read_cases("fingerprints.json")

# Keys that are asked for and yet move no figure, each with its reason.
MOVES_NOTHING = {
    "use_sliding_window": "read for its conflict with listed layers where it is true",
    "kda_layers": "only checked against the layers that attend",
    "num_nextn_predict_layers": "only tells the decoder's layers from the heads behind them",
    "_name_or_path": "names the spec",
    **dict.fromkeys(OTHER_DOCUMENTS, "only tells other documents from configs"),
    "is_encoder_decoder": "only tells encoder-decoders from decoders",
}

# Keys inside a block of which the fingerprint reads other entries only.
INSIDE_BLOCKS = {
    "group_size",
    "load_in_4bit",
    "long_factor",
    "mrope_section",
    "rope_theta",
    "short_factor",
    "sliding_attention",
}

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEYS = sorted({key for case in GOLDEN for key in case["config"]})
golden_configs = st.sampled_from([case["config"] for case in GOLDEN])


def figures(spec: ModelSpec) -> dict[str, object]:
    """Return everything a spec says about the model, without its name and its remarks."""
    return {
        key: value
        for key, value in spec.to_json().items()
        if key not in ("name", "unread", "notes")
    }


def read_or_refuse(config: Mapping[str, object]) -> object:
    """Return the figures, or the refusal's text."""
    try:
        return figures(fingerprint(config))
    except ConfigError as error:
        return str(error)


@given(config=golden_configs, order=st.randoms())
@settings(deadline=None)
def test_the_order_of_keys_changes_nothing(config: dict[str, object], order: Any) -> None:
    """A config is an object: its keys may come in any order."""
    keys = list(config)
    order.shuffle(keys)

    assert fingerprint({key: config[key] for key in keys}) == fingerprint(config)


@given(config=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), documents))
@settings(max_examples=300, deadline=None)
def test_any_object_is_read_or_refused(config: dict[str, object]) -> None:
    """Whatever the values are, the answer is a spec or one `ConfigError`."""
    read_or_refuse(config)


@given(config=golden_configs, key=st.sampled_from(KEYS), value=documents)
@settings(max_examples=500, deadline=None)
def test_any_value_under_a_known_key_is_read_or_refused(
    config: dict[str, object], key: str, value: object
) -> None:
    """One foreign value in a good config never ends in another exception."""
    read_or_refuse(config | {key: value})


@given(config=golden_configs, path=st.randoms(), value=documents)
@settings(max_examples=300, deadline=None)
def test_any_value_deep_inside_is_read_or_refused(
    config: dict[str, object], path: Any, value: object
) -> None:
    """The same holds for a value inside a block or a list."""
    broken = json.loads(json.dumps(config))
    place: Any = broken
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = path.choice(keys)
        if not isinstance(place[key], dict | list) or not place[key]:
            break
        place = place[key]
    place[key] = value

    read_or_refuse(broken)


@given(
    layers=st.integers(1, 40),
    groups=st.integers(1, 16),
    kv_heads=st.integers(1, 16),
    width=st.integers(1, 256),
)
@settings(deadline=None)
def test_the_arithmetic_of_heads(layers: int, groups: int, kv_heads: int, width: int) -> None:
    """Bytes a token are layers times KV heads times both widths times two bytes."""
    heads = groups * kv_heads
    spec = fingerprint(
        {
            "model_type": "llama",
            "num_hidden_layers": layers,
            "hidden_size": heads * width,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
        }
    )

    assert spec.head_dim == width
    assert spec.kv_bytes_per_token == layers * kv_heads * 2 * width * 2
    kind = "MHA" if groups == 1 else "MQA" if kv_heads == 1 else "GQA"
    assert spec.attention_kind == kind


@given(config=golden_configs, tokens=st.integers(0, 200), more=st.integers(0, 200))
@settings(deadline=None)
def test_the_cache_grows_with_the_text_and_windows_cap_it(
    config: dict[str, object], tokens: int, more: int
) -> None:
    """More positions never need fewer bytes, and never more than the growth without windows."""
    spec = fingerprint(config)
    few, many = spec.cache_bytes(tokens=tokens), spec.cache_bytes(tokens=tokens + more)
    if few is None or many is None or spec.kv_bytes_per_token is None:
        assert spec.cache_plan is None
        return

    assert few <= many <= few + more * spec.kv_bytes_per_token
    assert few <= tokens * spec.kv_bytes_per_token


@given(config=golden_configs)
@settings(deadline=None)
def test_a_spec_is_json(config: dict[str, object]) -> None:
    """Strict JSON can hold every spec: no NaN, no infinity, no object of ours."""
    read = fingerprint(config).to_json()

    assert json.loads(json.dumps(read, allow_nan=False)) == read


class Recording(dict[str, object]):
    """A config that remembers which of its keys were asked for."""

    asked: set[str]

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
        """Note the key and look it up."""
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        """Note the key and look for it."""
        self.asked.add(str(key))
        return super().__contains__(key)


def leaves(config: dict[str, object]) -> Iterator[tuple[str, Callable[[object], object]]]:
    """Yield each key, nested ones too, with a function that puts another value there."""
    for key, value in config.items():
        yield key, lambda new, key=key: {**config, key: new}  # type: ignore[misc]
        if isinstance(value, dict):
            for inner, put in leaves(value):
                yield inner, lambda new, key=key, put=put: {**config, key: put(new)}  # type: ignore[misc]


def other_values(value: object) -> list[object]:
    """Return values that differ from this one, of its own type where that has any."""
    match value:
        case bool():
            return [not value, None]
        case int() | float():
            return [value * 2, value + 1, None]
        case str():
            return ["other", None]
        case [*items] if items:
            return [items[::-1], [items[0]] * len(items), None]
        case _:
            return [None]


def value_at(config: dict[str, object], key: str) -> list[object]:
    """Return the values under a key, wherever it stands."""
    found = [value for name, value in config.items() if name == key]
    for value in config.values():
        if isinstance(value, dict):
            found += value_at(value, key)
    return found


def test_every_handled_key_moves_the_fingerprint() -> None:
    """A key that is neither ignored nor unread changes a figure in some golden case."""
    moved: set[str] = set()
    handled: set[str] = set()
    for case in GOLDEN:
        config = case["config"]
        unread = {path.rpartition(".")[2] for path in fingerprint(config).unread}
        before = read_or_refuse(config)
        for key, put in leaves(config):
            if key in IGNORED or key in OUTSIDE or key in unread:
                continue
            handled.add(key)
            values = [new for old in value_at(config, key) for new in other_values(old)]
            if any(read_or_refuse(put(new)) != before for new in values):  # type: ignore[arg-type]
                moved.add(key)

    assert handled - moved - INSIDE_BLOCKS - MOVES_NOTHING.keys() == set()


def test_every_key_that_is_asked_for_stands_in_a_golden_case() -> None:
    """No key is read that no case shows, so each spelling is proven to work."""
    Recording.asked = set()
    shown: set[str] = set()
    for case in GOLDEN:
        fingerprint(Recording(case["config"]))
        if "text_config" in case["config"]:
            fingerprint({**case["config"], "text_config": Recording(case["config"]["text_config"])})
        shown |= {key for key, _ in leaves(case["config"])}

    assert {"hidden_size", "attn_logit_softcapping", "kv_lora_rank"} <= Recording.asked
    assert Recording.asked - shown - MOVES_NOTHING.keys() == set()


def test_no_key_is_left_alone_for_two_reasons() -> None:
    """A key either enters the function or does not."""
    assert IGNORED.keys() & OUTSIDE.keys() == set()
    assert all(reason for reason in (IGNORED | OUTSIDE).values())


def test_every_family_is_found_by_its_type_and_its_class() -> None:
    """Model types are found without regard to case, separators and a text ending."""
    assert family_of("Gemma3_Text") is family_of("gemma3") is BY_NAME["gemma3"]
    assert family_of("novel") is None


def test_every_family_has_a_golden_case() -> None:
    """Each family object, though not each of its types, is read by some case."""
    seen = set()
    for case in GOLDEN:
        spec = fingerprint(case["config"])
        seen |= {id(family_of(name)) for name in (spec.model_type, spec.text_model_type) if name}

    missing = {family.model_types for family in BY_NAME.values() if id(family) not in seen}
    assert missing == set()
