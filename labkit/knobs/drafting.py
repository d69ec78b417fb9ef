"""Options that guess several tokens ahead and let the model check the guesses in one pass."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from labkit.backends.transformers import TransformersBackend, TransformersSession
from labkit.errors import KnobError, NotApplicable
from labkit.knobs.feeding import Rewinding, require_dynamic
from labkit.knobs.model import quantised_weights
from labkit.knobs.registry import Row, knob

Drafter = Callable[[Tensor], list[int]]
"""Guesses what follows the tokens so far, shape `(1, tokens)`; may guess nothing."""

NO_LIMIT = 2**31
"""The library stops drafting near an output's end; here the harness decides where that is."""


@dataclass(slots=True, kw_only=True)
class Drafting(Rewinding):
    """A session that checks drafts along with each token and takes the wrong ones back."""

    make_drafter: Callable[[], Drafter]
    _drafter: Drafter | None = None
    _ids: Tensor | None = None
    _checked: list[tuple[int, Tensor]] = field(default_factory=list)

    def _feed(self, ids: Tensor) -> Tensor:
        if ids.shape[0] != 1:
            raise NotApplicable(f"drafts are made for one sequence; got rows={ids.shape[0]}.")
        self._ids = ids if self._ids is None else torch.cat([self._ids, ids], dim=1)
        if self._checked and ids.tolist() == [[self._checked[0][0]]]:
            return self._checked.pop(0)[1]
        self._take_back(len(self._checked))
        if self._drafter is None:
            self._drafter = self.make_drafter()
        return self._check(self._drafter(self._ids), after=ids)

    def _check(self, drafts: list[int], *, after: Tensor) -> Tensor:
        fed = torch.cat([after, after.new_tensor([drafts])], dim=1)
        logits = self._pass(fed, keep=len(drafts) + 1)
        if drafts:
            self.observed["drafts"] = "checked"
        self._checked = [(token, logits[:, i + 1]) for i, token in enumerate(drafts)]
        return logits[:, 0]

    def _observe(self, ids: Tensor, inputs: dict[str, Any]) -> None:
        seen = self.observed.get("drafts", "none")
        Rewinding._observe(self, ids, inputs)
        self.observed["drafts"] = seen


def _some_drafts(*, tokens: int, **_: int) -> None:
    if tokens < 1:
        raise KnobError(f"a pass must check at least one draft; got tokens={tokens}.")


def _sensible_lookup(*, tokens: int, ngram: int) -> None:
    _some_drafts(tokens=tokens)
    if ngram < 1:
        raise KnobError(f"prompt_lookup: ngram must be at least 1; got ngram={ngram}.")


@knob(
    kind="runtime",
    label="prompt lookup of {tokens}",
    rows=[Row({"tokens": k}, table="more") for k in (2, 5, 10)],
    check=_sensible_lookup,
    expect=lambda group, **_: {"drafts": "checked"},
)
def prompt_lookup(
    backend: TransformersBackend, *, tokens: int = 10, ngram: int = 2
) -> Iterator[TransformersBackend]:
    """Draft what followed the latest `ngram` tokens where they stood before, as the library does.

    The drafts are transformers' own; which of them are right depends on the text, so passes
    check one token or several.
    """
    require_dynamic(backend, "prompt_lookup")
    library: Any = PromptLookupCandidateGenerator(
        num_output_tokens=tokens, max_matching_ngram_size=ngram, max_length=NO_LIMIT
    )

    def draft(ids: Tensor) -> list[int]:
        found: list[int] = library.get_candidates(ids)[0][0, ids.shape[1] :].tolist()
        return found

    yield _drafted(backend, lambda: draft)


@dataclass(slots=True, kw_only=True)
class Assistant:
    """Another model that goes on by itself for some tokens, keeping a cache of its own."""

    session: Rewinding
    tokens: int
    _fed: list[int] = field(default_factory=list)

    def __call__(self, ids: Tensor) -> list[int]:
        """Return its greedy continuation."""
        whole = ids[0].tolist()
        same = min(_common(self._fed, whole), len(whole) - 1)
        if self._fed:
            self.session._take_back(len(self._fed) - same)
        feed, drafts = whole[same:], list[int]()
        for _ in range(self.tokens):
            drafts.append(int(self.session.next_logits([feed])[0].argmax()))
            feed = drafts[-1:]
        self._fed = whole + drafts[:-1]
        return drafts


def _common(left: list[int], right: list[int]) -> int:
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


@knob(
    kind="runtime",
    label="assisted by {bits} bits, {tokens} drafts",
    rows=[Row({"tokens": k}, table="more") for k in (2, 4, 8)],
    check=_some_drafts,
    expect=lambda group, **_: {"drafts": "checked"},
)
def assisted(
    backend: TransformersBackend, *, tokens: int = 4, bits: int = 4
) -> Iterator[TransformersBackend]:
    """Let a copy of the model with weights of `bits` bits draft `tokens` tokens a pass.

    The copy stands for any assistant: it is right often, and wrong now and then. It decides
    which drafts are checked and never which token is accepted.
    """
    require_dynamic(backend, "assisted")
    rounded: AbstractContextManager[Any] = quantised_weights.apply(backend, bits=bits)
    with rounded as copy:

        def make() -> Assistant:
            return Assistant(session=Rewinding(backend=copy, capacity_tokens=0), tokens=tokens)

        yield _drafted(backend, make)


def _drafted(
    backend: TransformersBackend, make_drafter: Callable[[], Drafter]
) -> TransformersBackend:
    kind: Callable[..., TransformersSession] = functools.partial(
        Drafting, make_drafter=make_drafter
    )
    return replace(backend, session_kind=kind)
