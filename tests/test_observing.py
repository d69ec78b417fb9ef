"""What a live model has in force is read from it: weights, frequencies, cache, template."""

from __future__ import annotations

import dataclasses

import pytest
import tiny
import torch

from labkit import record
from labkit.backends.observing import (
    observe_changes,
    observe_model,
    observe_run,
    sample_weights,
)
from labkit.knobs import parse_option
from labkit.models import cast


@pytest.mark.parametrize("make", [tiny.backend, tiny.gpt2_backend], ids=["llama", "gpt2"])
def test_a_record_takes_what_is_seen(make: object) -> None:
    """Everything that is seen of a live run is a field of a record, of the right type."""
    backend = make()  # type: ignore[operator]
    seen = observe_run(backend, tiny.prompt_ids(backend, tokens=9))
    started = record.RunRecord(
        id="a", status="started", command="x", started_utc="2026-01-01T00:00:00Z"
    )
    filled = record.with_stages(started, "observed", seen)

    assert filled.in_force("execution.prefill_pieces") == [9]
    assert filled.in_force("execution.kv_cache_dtype") == "float32"
    assert filled.in_force("execution.cache") == "DynamicCache"
    assert set(record.identify(filled).missing) == {"execution.truncation", "execution.decoding"}


def test_an_exact_cast_keeps_the_weights_and_rounding_does_not() -> None:
    """The sample is that of the values: exact in float64, other after rounding to 8 bits."""
    backend = tiny.backend()
    plain = sample_weights(backend.model)

    assert sample_weights(cast(backend.loaded, "float64").model) == plain
    assert sample_weights(cast(backend.loaded, "bfloat16").model) != plain
    with parse_option("quantised_weights:bits=8").applied(backend) as rounded:
        assert sample_weights(rounded.model) != plain
        assert observe_changes(rounded)["execution.weight_rounding"] == {"bits": 8}


def test_the_rotary_frequencies_are_those_of_the_live_module() -> None:
    """Stretched frequencies show while they are in force, and are gone after."""
    backend = tiny.backend()
    plain = observe_model(backend.loaded)["execution.rope"]
    with parse_option("stretched_rope:kind=yarn,factor=4.0").applied(backend) as stretched:
        seen = observe_model(stretched.loaded)["execution.rope"]

    assert (seen["kind"], seen["factor"]) == ("yarn", 4.0)
    assert seen["frequencies"] != plain["frequencies"]
    assert observe_model(backend.loaded)["execution.rope"] == plain


def test_a_configuration_written_after_loading_changes_nothing() -> None:
    """A scaling that only the configuration states leaves the live frequencies as they are."""
    backend = tiny.backend()
    before = observe_model(backend.loaded)["execution.rope"]["frequencies"]
    backend.model.config.max_position_embeddings = 7

    assert observe_model(backend.loaded)["execution.rope"]["frequencies"] == before


def test_settings_that_calls_leave_in_a_tokenizer_are_no_part_of_it() -> None:
    """Padding a batch does not make another tokenizer, another template does."""
    loaded = tiny.loaded()
    before = observe_model(loaded)
    loaded.tokenizer.backend_tokenizer.enable_truncation(4)
    after = observe_model(loaded)
    loaded.tokenizer.chat_template = "{{ messages }}"
    templated = observe_model(loaded)

    assert after["identity.tokenizer"] == before["identity.tokenizer"]
    assert before["identity.chat_template"] == "none"
    assert templated["identity.chat_template"] != "none"


def test_mixed_parameters_are_counted() -> None:
    """A model with parameters of two dtypes says so, with how many of each."""
    loaded = tiny.loaded()
    loaded.model.lm_head.weight = torch.nn.Parameter(loaded.model.lm_head.weight.to(torch.float16))
    seen = observe_model(dataclasses.replace(loaded))

    assert seen["execution.dtype"] == "mixed"
    assert set(seen["execution.parameters"]) == {"float16", "float32"}
