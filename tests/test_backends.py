"""The backend contract, kept by each adapter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import tiny
import torch

from labkit.backends import Backend, Session
from labkit.backends.toy import ToyBackend
from labkit.errors import KnobError, NotApplicable

BACKENDS: dict[str, Callable[[], Backend]] = {
    "toy": ToyBackend,
    "transformers": tiny.backend,
    "transformers-gpt2": tiny.gpt2_backend,
    "llamacpp": tiny.llamacpp_backend,
}
CASES = pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS.keys())


@CASES
def test_an_adapter_has_the_four_parts_of_the_contract(make: Callable[[], Backend]) -> None:
    """Each adapter is a Backend, and what it opens is a Session."""
    backend = make()

    assert isinstance(backend, Backend)
    assert isinstance(backend.session(capacity_tokens=4), Session)


@CASES
def test_text_survives_encoding(make: Callable[[], Backend]) -> None:
    """Decoding what was encoded gives the text back, with nothing added."""
    backend = make()

    assert backend.decode(backend.encode("a plain text.")) == "a plain text."


@CASES
def test_a_session_extends_what_it_has_seen(make: Callable[[], Backend]) -> None:
    """Feeding a prompt in two calls gives the logits of feeding it in one."""
    backend = make()
    ids = backend.encode("the cache keeps what was read")
    session = backend.session(capacity_tokens=len(ids))
    session.next_logits([ids[:10]])
    in_two = session.next_logits([ids[10:]])[0]

    assert np.allclose(in_two, backend.next_logits(ids), rtol=0, atol=1e-4)


@CASES
def test_logits_are_float32_rows_over_the_vocabulary(make: Callable[[], Backend]) -> None:
    """`next_logits` is one float32 row; a session's has one row a sequence."""
    backend = make()
    ids = backend.encode("row")
    alone = backend.next_logits(ids)
    batch = backend.session(capacity_tokens=8).next_logits([ids, ids])

    assert alone.dtype == np.float32
    assert batch.shape == (2, len(alone))


@CASES
def test_a_manifest_is_plain_json(make: Callable[[], Backend]) -> None:
    """The manifest can be stored as JSON and names the stack."""
    import json

    assert json.loads(json.dumps(make().manifest()))["stack"]


def test_a_float64_model_answers_in_float64() -> None:
    """A reference in float64 is not rounded on its way out."""
    assert tiny.backend(dtype="float64").next_logits([5, 6]).dtype == np.float64


def test_rows_of_a_padded_batch_equal_their_solo_runs() -> None:
    """Left padding with mask and positions leaves each row's logits where they were."""
    backend = tiny.backend()
    long, short = tiny.prompt_ids(backend), tiny.prompt_ids(backend, tokens=9, seed=1)
    session = backend.session(capacity_tokens=40)
    session.next_logits([long, short])
    rows = session.next_logits([[7], [8]])

    assert session.observed["mask"] == "padding"
    assert np.allclose(rows[0], backend.next_logits([*long, 7]), rtol=0, atol=1e-4)
    assert np.allclose(rows[1], backend.next_logits([*short, 8]), rtol=0, atol=1e-4)


def test_an_imposed_mask_that_hides_nothing_changes_nothing() -> None:
    """The masked path with an open mask gives the library's own logits."""
    plain = tiny.backend()
    masked = dataclasses.replace(plain, mask=lambda queries, keys: keys <= queries)
    ids = tiny.prompt_ids(plain)

    assert np.allclose(masked.next_logits(ids), plain.next_logits(ids), rtol=0, atol=1e-4)


def test_an_imposed_mask_that_hides_a_token_is_seen() -> None:
    """Hiding the first token from all others moves the logits."""
    plain = tiny.backend()
    masked = dataclasses.replace(plain, mask=lambda queries, keys: (keys > 0) | (queries == 0))
    ids = tiny.prompt_ids(plain)

    assert np.abs(masked.next_logits(ids) - plain.next_logits(ids)).max() > 0.01


def test_an_imposed_mask_refuses_a_padded_batch() -> None:
    """A window over a padded batch is refused by name instead of masking the wrong tokens."""
    masked = dataclasses.replace(tiny.backend(), mask=lambda queries, keys: keys <= queries)
    session = masked.session(capacity_tokens=8)

    with pytest.raises(NotApplicable, match="padded=True"):
        session.next_logits([[3, 4, 5], [3]])


def test_the_session_reports_what_was_in_force() -> None:
    """Cache class, attention, pieces of the prefill and kernels are read from the live run."""
    backend = dataclasses.replace(tiny.backend(), cache="static", prefill_chunk=10, sdpa="math")
    session = backend.session(capacity_tokens=30)
    session.next_logits([tiny.prompt_ids(backend)])

    assert session.observed == {
        "attention": "sdpa",
        "cache": "StaticCache",
        "dtype": "float32",
        "mask": "library",
        "prefill_pieces": [10, 10, 4],
        "rows": 1,
        "sdpa": ["math"],
    }
    assert torch.backends.cuda.flash_sdp_enabled()


def test_an_unknown_kernel_is_refused_by_name() -> None:
    """A kernel that torch does not have is named, with the ones there are."""
    backend = dataclasses.replace(tiny.backend(), sdpa="fast")

    with pytest.raises(KnobError, match=r"sdpa kernel must be one of flash, .*; got 'fast'"):
        backend.next_logits([3])
