"""From frozen outputs to scores: one outcome an item, one score an extractor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from labkit.outputs import Output
from labkit.scoring.lengths import answer_of
from labkit.scoring.registry import Candidate, Extractor, NotJudged

Outcome = Literal["right", "wrong", "missing", "not judged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemScore:
    """One item under one extractor.

    Attributes:
        id: The item.
        outcome: `missing` without a candidate; `not judged` if none could be decided.
        answer: The candidate that counted.
        candidates: How many there were.
    """

    id: str
    outcome: Outcome
    answer: str | None
    candidates: int

    @property
    def right(self) -> bool:
        """Whether it counts as right; what is missing or not judged does not."""
        return self.outcome == "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A set of outputs under one extractor.

    Attributes:
        extractor: The rule.
        items: One an output, in their order.
    """

    extractor: Extractor
    items: tuple[ItemScore, ...]

    @property
    def accuracy(self) -> float:
        """The share that is right, of all items."""
        return sum(item.right for item in self.items) / len(self.items)

    def to_json(self) -> dict[str, object]:
        """Return the score's counts, without its items."""
        counts = Counter(item.outcome for item in self.items)
        return {
            "extractor": self.extractor.name,
            "version": self.extractor.version,
            "rule": self.extractor.rule,
            "items": len(self.items),
            "right": counts["right"],
            "accuracy": self.accuracy,
            "missing": counts["missing"],
            "not_judged": counts["not judged"],
            "several": sum(item.candidates > 1 for item in self.items),
        }


def score(outputs: Iterable[Output], extractor: Extractor) -> Score:
    """Score outputs by an extractor, which reads what follows the reasoning block."""
    return Score(extractor=extractor, items=tuple(_judge(item, extractor) for item in outputs))


def _judge(output: Output, extractor: Extractor) -> ItemScore:
    found = extractor.find(answer_of(output))
    if not found:
        return ItemScore(id=output.id, outcome="missing", answer=None, candidates=0)
    last = found[-1]
    candidate = Candidate(text=last) if isinstance(last, str) else last
    try:
        outcome: Outcome = "right" if extractor.judge(candidate, output.reference) else "wrong"
    except NotJudged:
        outcome = "not judged"
    return ItemScore(id=output.id, outcome=outcome, answer=candidate.text, candidates=len(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How far extractors differ on the same outputs.

    Attributes:
        points: Highest less lowest accuracy, in percentage points.
        highest: The extractor that gives the highest.
        lowest: The one that gives the lowest.
        disputed: Items that some call right and others do not.
    """

    points: float
    highest: str
    lowest: str
    disputed: int


def spread(scores: Sequence[Score]) -> Spread:
    """Compare at least one score of the same outputs."""
    ordered = sorted(scores, key=lambda one: one.accuracy)
    by_item = zip(*(one.items for one in scores), strict=True)
    return Spread(
        points=100 * (ordered[-1].accuracy - ordered[0].accuracy),
        highest=ordered[-1].extractor.name,
        lowest=ordered[0].extractor.name,
        disputed=sum(len({item.right for item in items}) > 1 for items in by_item),
    )
