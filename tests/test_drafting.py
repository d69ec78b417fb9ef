"""Drafts: whoever makes them and whether they are right, the accepted logits are the model's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from verdict_bench.subjects import tiny_model

from labkit.backends.transformers import TransformersBackend
from labkit.errors import NotApplicable, NotApplied
from labkit.harness import follow, greedy
from labkit.knobs import parse_option
from labkit.knobs.drafting import Drafter, Drafting
from labkit.knobs.model import quantised_weights

REORDERED = 1e-3
STEPS = 8
BACKEND = tiny.backend()
IDS = tiny.prompt_ids(BACKEND, tokens=12)
OWN = list(greedy(BACKEND, IDS, steps=STEPS).tokens)
PLAIN = np.concatenate(list(follow(BACKEND, [IDS], [OWN])))


def _logits(draft: Drafter, backend: TransformersBackend = BACKEND) -> tuple[np.ndarray, list[int]]:
    """Return the logits along the model's own continuation, and the tokens of each pass."""
    passes: list[int] = []

    class Watched(Drafting):
        def _pass(self, ids: Tensor, *, keep: int) -> Tensor:
            passes.append(ids.shape[1])
            return Drafting._pass(self, ids, keep=keep)

    session = Watched(backend=backend, capacity_tokens=0, make_drafter=lambda: draft)
    rows = [session.next_logits([IDS])[0]]
    rows += [session.next_logits([[token]])[0] for token in OWN[:-1]]
    return np.stack(rows), passes


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=4), min_size=STEPS, max_size=STEPS))
def test_wrong_drafts_change_no_logits(guesses: list[list[int]]) -> None:
    """Whatever is drafted, the logits of the accepted tokens are those of one token a pass."""
    found, _ = _logits(lambda ids: guesses[(ids.shape[1] - len(IDS)) % STEPS])

    assert np.abs(found - PLAIN).max() < REORDERED


def test_right_drafts_save_their_passes() -> None:
    """With drafts that are all right, four tokens of output cost one pass."""
    text = IDS + OWN
    found, passes = _logits(lambda ids: text[ids.shape[1] : ids.shape[1] + 3])

    assert passes == [len(IDS) + 3, 4]
    assert np.abs(found - PLAIN).max() < REORDERED


def test_drafts_are_taken_back_from_a_window() -> None:
    """Layers that forget what left their window get back what a wrong draft pushed out."""
    windowed = tiny.backend(model=tiny_model("Mistral", sliding_window=6))
    own = list(greedy(windowed, IDS, steps=STEPS).tokens)
    with parse_option("prompt_lookup:tokens=5").applied(windowed) as variant:
        moved = [
            np.abs(left - right).max()
            for left, right in zip(
                follow(windowed, [IDS], [own]), follow(variant, [IDS], [own]), strict=True
            )
        ]

    assert max(moved) < REORDERED


def test_an_equal_assistant_is_always_right() -> None:
    """An assistant that is the model itself has every draft accepted."""
    with parse_option("assisted:tokens=3,bits=16").applied(BACKEND) as variant:
        session = variant.session(capacity_tokens=0)
        session.next_logits([IDS])
        accepted = [token for token, _ in session._checked]

    assert accepted == OWN[:3]


def test_text_that_never_comes_again_gives_no_drafts() -> None:
    """Where prompt lookup finds nothing to draft, it is not applied, and never preserving."""
    option = parse_option("prompt_lookup")
    distinct = [10, 11, 12, 13]
    with (
        pytest.raises(NotApplied, match="asked for drafts='checked'; the stack did drafts='none'"),
        option.applied(BACKEND) as variant,
    ):
        list(follow(variant, [distinct], [[14, 15]], expect=option.expected([])))


@pytest.mark.parametrize("spelled", ["prompt_lookup", "assisted"])
def test_drafts_need_one_sequence(spelled: str) -> None:
    """A batch is refused by name, since each row would accept another number of tokens."""
    with (
        parse_option(spelled).applied(BACKEND) as variant,
        pytest.raises(NotApplicable, match="drafts are made for one sequence; got rows=2"),
    ):
        variant.session(capacity_tokens=0).next_logits([IDS, IDS])


def test_an_assistant_is_rounded_and_the_model_is_not() -> None:
    """The assistant's weights are the rounded copy; the model answers with its own."""
    before = BACKEND.model.lm_head.weight.clone()
    make: Callable[..., object] = quantised_weights.apply
    with make(BACKEND, bits=4) as copy, parse_option("assisted:bits=4").applied(BACKEND) as variant:
        drafter = variant.session_kind.keywords["make_drafter"]()
        theirs = drafter.session.backend.model.model.layers[0].mlp.up_proj.weight

        assert torch.equal(theirs, copy.model.model.layers[0].mlp.up_proj.weight)
        assert not torch.equal(theirs, variant.model.model.layers[0].mlp.up_proj.weight)
    assert torch.equal(BACKEND.model.lm_head.weight, before)
