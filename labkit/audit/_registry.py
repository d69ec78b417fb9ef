"""How a check or a gate is registered: one function that looks at a run and answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from labkit.audit.evidence import RunEvidence

Answer = Literal["holds", "does not hold", "missing", "not evaluated"]
Stage = Literal["identity", "execution", "decoding", "scoring", "release"]
Found = tuple[Answer, str]
Look = Callable[[RunEvidence], Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
        name: The check.
        stage: The stage it belongs to, or the gate's number.
        asks: What must be so.
        answer: `holds`, or why it is not known to.
        found: What was looked at, with names and numbers.
    """

    name: str
    stage: str
    asks: str
    answer: Answer
    found: str

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A registered question about a run.

    Attributes:
        name: The function's name.
        stage: The stage of the preflight, or the number of the gate.
        asks: What must be so; the function's docstring.
        look: Answers for one run.
    """

    name: str
    stage: str
    asks: str
    look: Look

    def ask(self, run: RunEvidence) -> Finding:
        """Return what the check finds in a run."""
        answer, found = self.look(run)
        return Finding(name=self.name, stage=self.stage, asks=self.asks, answer=answer, found=found)

    def skip(self, why: str) -> Finding:
        """Return the finding of a check that was not asked."""
        return Finding(
            name=self.name, stage=self.stage, asks=self.asks, answer="not evaluated", found=why
        )


def judged(holds: bool, found: str) -> Found:
    """Return whether something holds, with what was looked at."""
    return ("holds" if holds else "does not hold"), found


CHECKS: dict[str, Check] = {}
GATES: dict[str, Check] = {}


def check(*, stage: Stage) -> Callable[[Look], Look]:
    """Register a function as a check of the preflight; its docstring says what must be so."""
    return lambda look: _register(CHECKS, stage, look)


def gate(*, number: int) -> Callable[[Look], Look]:
    """Register a function as a gate for failed runs, in the order of the numbers."""
    return lambda look: _register(GATES, str(number), look)


def _register(registry: dict[str, Check], stage: str, look: Look) -> Look:
    asks = (look.__doc__ or "").strip()
    registry[look.__name__] = Check(name=look.__name__, stage=stage, asks=asks, look=look)
    return look
