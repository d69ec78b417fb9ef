"""Fingerprints: what each family's config says, what is refused, and the cache arithmetic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import ROOT, read_cases

from labkit.errors import ConfigError
from labkit.spec import (
    LayerCache,
    ModelSpec,
    fingerprint,
    iter_config_files,
    read_config_file,
)

GOLDEN = read_cases("fingerprints.json")
REFUSED = read_cases("fingerprints_refused.json")
TEN = ROOT / "data" / "configs"
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}

# name: kind, layers, heads, KV heads, width, bytes a token, positions and their scheme, window
# and the scope the file gives it, RoPE kind and whether it extends, soft-cap, tied, dtype
KNOWN = {
    "gpt2": "MHA 12 12 12 64 36864 1024 learned None none none False None None None",
    "pythia-160m": "MHA 12 12 12 64 36864 2048 rope None none none False None False float16",
    "tinyllama-1.1b-chat": (
        "GQA 22 32 4 64 22528 2048 rope None none none False None False bfloat16"
    ),
    "llama-3.2-1b": "GQA 16 32 8 64 32768 131072 rope None none llama3 True None True bfloat16",
    "llama-3.2-3b": "GQA 28 24 8 128 114688 131072 rope None none llama3 True None True bfloat16",
    "mistral-7b-v0.1": (
        "GQA 32 32 8 128 131072 32768 rope 4096 size_only none False None False bfloat16"
    ),
    "gemma-2-2b": "GQA 26 8 4 256 106496 8192 rope 4096 size_only none False 50.0 None float32",
    "qwen2.5-0.5b": "GQA 24 14 2 64 12288 32768 rope 32768 off none False None True bfloat16",
    "phi-3-mini-4k-instruct": (
        "MHA 32 32 32 96 393216 4096 rope 2047 size_only none False None False bfloat16"
    ),
    "smollm2-135m-instruct": (
        "GQA 30 9 3 64 23040 8192 rope None none none False None True bfloat16"
    ),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in GOLDEN])
def test_a_config_is_read_as_its_family_means_it(case: dict) -> None:
    """Each expected field of a golden case comes out exactly."""
    read = fingerprint(case["config"]).to_json()

    assert {field: read[field] for field in case["expect"]} == case["expect"]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in REFUSED])
def test_a_broken_or_foreign_config_is_refused(case: dict) -> None:
    """The whole message names the fields, their values and what to do."""
    with pytest.raises(ConfigError) as refused:
        fingerprint(case["config"])

    assert str(refused.value) == case["message"]


@pytest.mark.parametrize("name", KNOWN)
def test_the_ten_configurations_give_their_known_numbers(name: str) -> None:
    """The stored ten agree with the published figures, and leave no key unread."""
    spec = fingerprint(read_config_file(TEN / f"{name}.json"), name=name)

    assert (spec.name, spec.unread, spec.notes) == (name, (), ())
    assert KNOWN[name].split() == [
        str(value)
        for value in (
            spec.attention_kind,
            spec.num_layers,
            spec.num_attention_heads,
            spec.num_kv_heads,
            spec.head_dim,
            spec.kv_bytes_per_token,
            spec.max_position,
            spec.position_kind,
            spec.sliding_window.size,
            spec.sliding_window.scope_from_file,
            spec.rope_scaling.kind,
            spec.rope_is_extension,
            spec.attn_logit_softcap,
            spec.tied_embeddings,
            spec.dtype,
        )
    ]


def test_there_are_ten_configurations() -> None:
    """The folder that the command prints by default holds the ten and nothing else."""
    assert {path.stem for path in iter_config_files([TEN])} == set(KNOWN)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none_is_refused_where_it_matters(value: float) -> None:
    """NaN and infinity never reach a figure, and every such field is named."""
    broken = LLAMA | {
        "max_position_embeddings": value,
        "attn_logit_softcapping": value,
        "rope_scaling": {"rope_type": "yarn", "factor": value},
    }

    with pytest.raises(ConfigError) as refused:
        fingerprint(broken)

    for field in ("max_position_embeddings", "attn_logit_softcapping", "rope_scaling.factor"):
        assert f"`{field}` must be" in str(refused.value)
        assert f"{field}={value}" in str(refused.value)


def test_infinity_in_a_key_that_decides_nothing_is_let_through() -> None:
    """A state-space time limit without an upper end is how transformers writes it."""
    spec = fingerprint(LLAMA | {"time_step_limit": [0.0, float("inf")]})

    assert spec.kv_bytes_per_token == 256


def test_endless_nesting_ends() -> None:
    """A block within a block within a block is followed only so far."""
    config: dict[str, object] = dict(LLAMA)
    for _ in range(2000):
        config = {"model_type": "llava", "text_config": config}

    assert fingerprint(config).num_layers is None


@pytest.mark.parametrize("document", [None, "llama", [1], 3, True])
def test_only_an_object_is_a_config(document: object) -> None:
    """Any other JSON value is refused by what it is."""
    with pytest.raises(ConfigError, match="must be a JSON object; got"):
        fingerprint(document)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("extra", "name", "expected"),
    [
        ({"_name_or_path": "someone/tiny/"}, None, "tiny"),
        ({"_name_or_path": ""}, None, "llama"),
        ({"_name_or_path": "someone/tiny"}, "mine", "mine"),
    ],
)
def test_a_spec_has_a_name_for_messages(extra: dict, name: str | None, expected: str) -> None:
    """The caller's name wins, then the end of the path, then the model type."""
    assert fingerprint(LLAMA | extra, name=name).name == expected


def test_cache_bytes_follow_the_plan() -> None:
    """Four layers of two KV heads of width eight, keys and values, two bytes an element."""
    spec = fingerprint(LLAMA)

    assert spec.cache_plan == (LayerCache(kind="full", kv_heads=2, key_width=8, value_width=8),) * 4
    assert spec.cache_bytes(tokens=10) == 10 * 256
    assert spec.cache_bytes(tokens=10, batch=3, bytes_per_element=1) == 3 * 10 * 128
    assert spec.cache_bytes_full_context == 64 * 256


def test_a_window_caps_the_cache_of_its_layers() -> None:
    """Beyond the window only the full layers go on growing."""
    layers = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
    spec = fingerprint(LLAMA | {"layer_types": layers, "sliding_window": 16})

    assert spec.cache_bytes(tokens=16) == 16 * 256
    assert spec.cache_bytes(tokens=40) == 3 * 16 * 64 + 40 * 64


def test_a_window_without_layers_gives_the_upper_bound() -> None:
    """Where the file does not say which layers slide, no layer's cache is capped."""
    spec = fingerprint(LLAMA | {"model_type": "mistral", "sliding_window": 16})

    assert spec.sliding_window.sliding_layers is None
    assert spec.cache_bytes(tokens=40) == 40 * 256


def test_recurrent_layers_stand_in_the_plan_and_add_nothing() -> None:
    """A state-space layer is listed as its own kind, outside the cache that grows."""
    config = LLAMA | {"model_type": "jamba", "attn_layer_period": 4, "attn_layer_offset": 1}
    spec = fingerprint(config)

    assert spec.cache_plan is not None
    assert [layer.kind for layer in spec.cache_plan] == ["recurrent", "full", *["recurrent"] * 2]
    assert spec.cache_bytes(tokens=10) == 10 * 64


def test_an_unknown_plan_gives_no_bytes_and_a_reason() -> None:
    """None stands for every figure whose ground is missing, and a note says why."""
    spec = fingerprint(LLAMA | {"model_type": "novel"})

    assert (spec.cache_plan, spec.cache_bytes(tokens=1)) == (None, None)
    assert spec.cache_bytes_full_context is None
    assert spec.notes == (
        '`model_type` "novel" is not known to labkit, so only what the file states is given; '
        "positions, attention kind and cache plan are open.",
    )


def test_negative_tokens_are_a_callers_mistake() -> None:
    """A negative length is refused with its value."""
    with pytest.raises(ValueError, match="tokens=-1"):
        fingerprint(LLAMA).cache_bytes(tokens=-1)


def test_a_spec_is_plain_json_with_the_plan_in_runs() -> None:
    """The JSON holds every field, and neighbours that keep the same are one entry."""
    layers = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    spec = fingerprint(LLAMA | {"layer_types": layers, "sliding_window": 16})
    read = json.loads(json.dumps(spec.to_json()))

    assert set(read) == set(ModelSpec.__dataclass_fields__) | {"rope_is_extension"}
    plan = [(run["first_layer"], run["layers"], run["kind"]) for run in read["cache_plan"]]
    assert plan == [(0, 2, "sliding"), (2, 1, "full"), (3, 1, "sliding")]


def test_a_summary_row_is_flat() -> None:
    """A row holds scalars only, so a table needs no unpacking."""
    row = fingerprint(LLAMA).summary_row()

    assert all(isinstance(value, str | int | float | None) for value in row.values())
    assert (row["window_size"], row["rope_kind"], row["cache_bytes_full_context"]) == (
        None,
        "none",
        16384,
    )


@pytest.mark.slow
def test_the_ten_agree_with_transformers(tmp_path: Path) -> None:
    """Where the file states a figure, the library's own class reads the same."""
    transformers = pytest.importorskip("transformers")
    for path in iter_config_files([TEN]):
        spec = fingerprint(read_config_file(path))
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        config = transformers.AutoConfig.from_pretrained(tmp_path / path.name)
        heads = config.num_attention_heads

        assert spec.num_layers == config.num_hidden_layers
        assert spec.num_attention_heads == heads
        assert spec.num_kv_heads == (getattr(config, "num_key_value_heads", None) or heads)
        assert spec.max_position == config.max_position_embeddings
        assert spec.vocab_size == config.vocab_size
