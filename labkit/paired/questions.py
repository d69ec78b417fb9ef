"""Whether two sets of outputs answer the same questions, whatever their items are called."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from labkit.outputs import OutputSet
from labkit.paired.pairs import shared_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What two sets ask; a question is a prompt with its reference.

    Attributes:
        either: Questions that stand in one of them at least.
        both: Those that stand in both.
        same: Whether every question has the same share of the items on both sides, so that two
            aggregates weigh it alike.
    """

    either: int
    both: int
    same: bool

    def __str__(self) -> str:
        """Return the counts in words."""
        words = f"{self.both} of {self.either} questions stand in both sets"
        return words if self.both < self.either or self.same else f"{words}, in other shares"


def compare_questions(before: OutputSet, after: OutputSet) -> Questions:
    """Count the questions of two sets, and those that stand in both.

    Raises:
        OutputsError: If an item of both sets asks something else in the second.
    """
    shared_pairs(before, after)
    left, right = _asked(before), _asked(after)
    return Questions(
        either=len(left | right),
        both=len(left.keys() & right.keys()),
        same=all(left[q] * right.total() == right[q] * left.total() for q in left | right),
    )


def _asked(outputs: OutputSet) -> Counter[tuple[str, str]]:
    return Counter((item.prompt, item.reference) for item in outputs.items)
