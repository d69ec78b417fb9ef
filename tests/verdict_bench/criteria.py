"""Four criteria in use elsewhere, applied to the very runs that the lab's verdict reads.

Each answers `preserving` or `different artefact` for an option on all prompts of a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from labkit.backends import Backend, Logits
from labkit.harness import Baseline, Run
from labkit.harness.verdict import DIFFERENT, PRESERVING

TOLERANCES = {"float32": (1e-6, 1e-4), "float16": (5e-3, 5e-3), "bfloat16": (1e-2, 1e-2)}
"""Absolute and relative tolerance by precision: those with which the model tests of
transformers compare eager with SDPA attention on a CPU."""

ROWS_CLOSE = 0.8
"""Share of rows that must be close in those tests."""

KL_CUT_NATS = 0.001
"""Mean KL divergence below which a variant counts as the same. llama.cpp prints the number and
leaves its reading to people, so the cut is ours; the file also counts the errors at others."""

TOP_LOGPROBS = 5
"""Candidates that vLLM's tests ask for when they compare log-probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the criteria read of one prompt.

    Attributes:
        rows_close: Share of steps whose logits are close at the tests' tolerances.
        in_top: Whether, at the first divergence, each token is among the other's candidates.
    """

    rows_close: float
    in_top: bool


@dataclass(slots=True, kw_only=True)
class Recorder:
    """A backend that keeps the logits of the sessions it hands out."""

    backend: Backend
    kept: list[Logits] = field(default_factory=list)

    def session(self, *, capacity_tokens: int) -> _Recording:
        """Open a session of the recorded backend."""
        return _Recording(owner=self, session=self.backend.session(capacity_tokens=capacity_tokens))


@dataclass(slots=True, kw_only=True)
class _Recording:
    owner: Recorder
    session: object

    @property
    def observed(self) -> dict[str, object]:
        return self.session.observed

    def next_logits(self, rows: Sequence[Sequence[int]]) -> Logits:
        answer = self.session.next_logits(rows)
        self.owner.kept.append(answer)
        return answer


def look(run: Run, baseline: Baseline, logits: Sequence[Logits], *, precision: str) -> Seen:
    """Reduce a prompt's logits, one row a step, to what the criteria read."""
    absolute, relative = TOLERANCES[precision]
    close = [
        np.allclose(row, base, atol=absolute, rtol=relative)
        for row, base in zip(logits, baseline.logits, strict=True)
    ]
    at = run.first_divergence
    in_top = True
    if at is not None:
        ours, theirs = baseline.trace.tokens[at], run.picks[at]
        in_top = ours in _top(logits[at]) and theirs in _top(baseline.logits[at])
    return Seen(rows_close=float(np.mean(close)), in_top=in_top)


def _top(row: Logits) -> set[int]:
    return set(np.argpartition(row, -TOP_LOGPROBS)[-TOP_LOGPROBS:].tolist())


def equal_tokens(runs: Sequence[Run], seen: Sequence[Seen]) -> bool:
    """Accept where every output equals the baseline's."""
    return all(run.identical for run in runs)


def allclose(runs: Sequence[Run], seen: Sequence[Seen]) -> bool:
    """Accept where enough rows are close, as the model tests of transformers do."""
    return float(np.mean([one.rows_close for one in seen])) >= ROWS_CLOSE


def mean_kl(runs: Sequence[Run], seen: Sequence[Seen]) -> bool:
    """Accept where the mean KL divergence, as llama.cpp prints it, is under the cut."""
    return float(np.mean([value for run in runs for value in run.kl])) < KL_CUT_NATS


def logprobs_close(runs: Sequence[Run], seen: Sequence[Seen]) -> bool:
    """Accept where each first differing token is among the other's candidates, as vLLM does."""
    return all(one.in_top for one in seen)


CRITERIA: dict[str, Callable[[Sequence[Run], Sequence[Seen]], bool]] = {
    "equal tokens": equal_tokens,
    "allclose": allclose,
    "mean KL": mean_kl,
    "logprobs close": logprobs_close,
}


def ask(name: str, runs: Sequence[Run], seen: Sequence[Seen]) -> str:
    """Return a criterion's answer as a verdict."""
    return PRESERVING if CRITERIA[name](runs, seen) else DIFFERENT
