"""Compare a variant with the baseline, one step at a time; keep numbers, not logits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from labkit.backends import Backend, Logits
from labkit.harness.traces import Baseline, first_divergence, follow, require_finite

SIGNIFICANT_DIGITS = 6
CANDIDATES = 5
"""Tokens kept at the first difference: so many of the baseline's best, and of the variant's."""
OWN_TOKENS = 24
"""Tokens of the variant's own continuation that are kept from there on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one option did on one prompt, along the baseline's continuation.

    Attributes:
        prompt: Name of the prompt.
        picks: The variant's own greedy choice at each step.
        distance: Its root mean square distance from the reference at each step, in logits.
        kl: KL divergence from the baseline's distribution at each step, in nats.
        logit_change: Largest change of a logit at the end of the prompt.
        first_divergence: First step at which its output leaves the baseline's, or `None`.
        margin_at_divergence: The baseline's margin there, in logits.
        rank: Rank of the variant's token in the baseline there (2 is the runner-up).
        baseline_token: The baseline's token there.
        variant_token: The variant's token there.
        arithmetic_decides: Whether the baseline's own distance from the reference could turn
            the same pair of tokens: its lead there is at most twice the largest entry of that
            distance at that step.
        candidates: The best tokens of both there, the baseline's best first.
        baseline_logits: The baseline's logits of the candidates.
        variant_logits: The variant's.
        own_tokens: The variant's own continuation from there, if it was asked to go on and its
            second pass came to the same difference.
        elapsed_s: Wall time of the pass, shared equally by the rows of a batch.
    """

    prompt: str
    picks: tuple[int, ...]
    distance: tuple[float, ...]
    kl: tuple[float, ...]
    logit_change: float
    first_divergence: int | None = None
    margin_at_divergence: float | None = None
    rank: int | None = None
    baseline_token: int | None = None
    variant_token: int | None = None
    arithmetic_decides: bool | None = None
    candidates: tuple[int, ...] = ()
    baseline_logits: tuple[float, ...] = ()
    variant_logits: tuple[float, ...] = ()
    own_tokens: tuple[int, ...] = ()
    elapsed_s: float = 0.0

    @property
    def identical(self) -> bool:
        """Whether the greedy output equals the baseline's, token for token."""
        return self.first_divergence is None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Run:
        """Read what `to_json` wrote."""
        listed: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        return cls(**listed)


def compare(
    backend: Backend,
    baselines: Sequence[Baseline],
    *,
    expect: Mapping[str, object] | None = None,
    go_on: bool = True,
) -> list[Run]:
    """Run a variant along its baselines' continuations and reduce each step to numbers.

    Args:
        backend: The variant.
        baselines: One a row; several run as one batch.
        expect: What the stack must be seen to do (see `follow`).
        go_on: Whether rows that left the baseline are run once more, along their own tokens.

    Returns:
        One `Run` a baseline, in order.
    """
    began = time.perf_counter()
    notes = [_Notes(baseline=baseline) for baseline in baselines]
    steps = follow(
        backend,
        [baseline.ids for baseline in baselines],
        [baseline.trace.tokens for baseline in baselines],
        expect=expect,
    )
    for step, rows in enumerate(steps):
        for note, logits in zip(notes, rows, strict=True):
            note.take(step, logits)
    if go_on and any(note.flip for note in notes):
        _go_on(backend, notes)
    share_s = (time.perf_counter() - began) / len(notes)
    return [note.finish(elapsed_s=share_s) for note in notes]


def _go_on(backend: Backend, notes: Sequence[_Notes]) -> None:
    """Let every row choose for itself, until each has said a little after its first difference."""
    steps = len(notes[0].baseline.trace.tokens)
    left = [note.left_at for note in notes if note.left_at is not None]
    last = min(steps, max(left) + OWN_TOKENS)
    longest = max(len(note.baseline.ids) for note in notes)
    session = backend.session(capacity_tokens=longest + steps)
    feeds = [list(note.baseline.ids) for note in notes]
    said: list[list[int]] = [[] for _ in notes]
    for step in range(last):
        logits = session.next_logits(feeds)
        require_finite(logits, step=step)
        feeds = [[int(np.argmax(row))] for row in logits]
        for tokens, feed in zip(said, feeds, strict=True):
            tokens += feed
    for note, tokens in zip(notes, said, strict=True):
        note.take_own(tokens)


@dataclass(slots=True, kw_only=True)
class _Notes:
    baseline: Baseline
    picks: list[int] = field(default_factory=list)
    distance: list[float] = field(default_factory=list)
    kl: list[float] = field(default_factory=list)
    logit_change: float = 0.0
    flip: dict[str, Any] = field(default_factory=dict)

    def take(self, step: int, logits: Logits) -> None:
        base = self.baseline.logits[step]
        pick = int(np.argmax(logits))
        if step == 0:
            self.logit_change = significant(float(np.abs(logits - base).max()))
        if not self.flip and pick != self.baseline.trace.tokens[step]:
            self.flip = self._describe_flip(step, base, logits)
        self.picks.append(pick)
        self.distance.append(significant(distance_rms(logits, self.baseline.reference[step])))
        self.kl.append(significant(kl_divergence(base, logits)))

    @property
    def left_at(self) -> int | None:
        """The first step at which the variant left the baseline."""
        return first_divergence(self.baseline.trace.tokens, self.picks)

    def take_own(self, tokens: Sequence[int]) -> None:
        """Keep what a free run said from the first difference, if it is the same difference."""
        at = self.left_at
        expected = [*self.baseline.trace.tokens[:at], self.flip.get("variant_token")]
        if at is not None and list(tokens[: at + 1]) == expected:
            self.flip["own_tokens"] = tuple(tokens[at : at + OWN_TOKENS])

    def _describe_flip(self, step: int, base: Logits, logits: Logits) -> dict[str, Any]:
        token, pick = self.baseline.trace.tokens[step], int(np.argmax(logits))
        best = sorted({*_best(base), *_best(logits)}, key=lambda i: (-float(base[i]), i))
        margin = float(base[token]) - float(base[pick])
        return {
            "margin_at_divergence": significant(self.baseline.trace.margins[step]),
            "rank": _rank(base, pick),
            "baseline_token": token,
            "variant_token": pick,
            "candidates": tuple(best),
            "baseline_logits": tuple(significant(float(base[i])) for i in best),
            "variant_logits": tuple(significant(float(logits[i])) for i in best),
            "arithmetic_decides": bool(margin <= 2 * self.baseline.error_max[step]),
        }

    def finish(self, *, elapsed_s: float) -> Run:
        return Run(
            prompt=self.baseline.prompt,
            picks=tuple(self.picks),
            distance=tuple(self.distance),
            kl=tuple(self.kl),
            logit_change=self.logit_change,
            first_divergence=self.left_at,
            elapsed_s=round(elapsed_s, 4),
            **self.flip,
        )


def _best(logits: Logits) -> list[int]:
    """Return the ids of the largest logits, of equal ones the lower id first."""
    return [int(i) for i in np.argsort(-logits, kind="stable")[:CANDIDATES]]


def _rank(logits: Logits, token: int) -> int:
    """Return a token's place, from 1; of equal logits the lower id comes first, as in `greedy`."""
    above = int((logits > logits[token]).sum())
    return 1 + above + int((logits[:token] == logits[token]).sum())


def centred_difference(logits: Logits, reference: Logits) -> Logits:
    """Return `logits - reference` less its mean over the vocabulary.

    A shift of all logits together changes no probability, so it is not a distance.
    """
    difference = np.subtract(logits, reference, dtype=np.promote_types(reference.dtype, np.float32))
    centred: Logits = difference - difference.mean(dtype=np.float64)
    return centred


def distance_rms(logits: Logits, reference: Logits) -> float:
    """Return the root mean square of the centred difference, in logits."""
    centred = centred_difference(logits, reference)
    return float(np.sqrt(np.mean(np.square(centred), dtype=np.float64)))


def kl_divergence(base: Logits, logits: Logits) -> float:
    """Return KL(base || logits) of the two next-token distributions, in nats, at least 0."""
    left, right = _log_softmax(base), _log_softmax(logits)
    return max(float(np.sum(np.exp(left) * (left - right), dtype=np.float64)), 0.0)


def _log_softmax(logits: Logits) -> Logits:
    shifted = logits - logits.max()
    answer: Logits = shifted - np.log(np.sum(np.exp(shifted), dtype=np.float64))
    return answer


def significant(value: float) -> float:
    """Round to `SIGNIFICANT_DIGITS`, so that stored numbers carry no false precision."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
