"""The four cells of a paired comparison, counted, or recovered from what a table prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labkit.errors import OutputsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Transitions:
    """How many items were right or wrong before and after.

    Attributes:
        right_right: Right on both paths.
        right_wrong: Lost: right before, wrong after.
        wrong_right: Gained: wrong before, right after.
        wrong_wrong: Wrong on both.
    """

    right_right: int
    right_wrong: int
    wrong_right: int
    wrong_wrong: int

    @property
    def items(self) -> int:
        """All pairs."""
        return self.right_right + self.right_wrong + self.wrong_right + self.wrong_wrong

    @property
    def changed(self) -> int:
        """Pairs whose outcome changed."""
        return self.right_wrong + self.wrong_right

    @property
    def net_points(self) -> float:
        """Net change of the score, in percentage points."""
        return 100 * (self.wrong_right - self.right_wrong) / self.items


def count_transitions(outcomes: Iterable[tuple[bool, bool]]) -> Transitions:
    """Count pairs of (right before, right after)."""
    cells = [0, 0, 0, 0]
    for before, after in outcomes:
        cells[2 * (not before) + (before != after)] += 1
    stayed_right, lost, stayed_wrong, gained = cells
    return Transitions(
        right_right=stayed_right, right_wrong=lost, wrong_right=gained, wrong_wrong=stayed_wrong
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A derived percentage, and how far rounding of what it came from can move it.

    Attributes:
        percent: The value, as it follows from the printed ones.
        low: The least that rounds to the same printed values.
        high: The most.
    """

    percent: float
    low: float
    high: float


def gained_percent(*, lost_percent: float, net_points: float, decimals: int = 1) -> Printed:
    """Recover the share gained from the share lost and the net change, all of all pairs.

    Raises:
        OutputsError: If the three contradict each other beyond rounding.
    """
    slack = 2 * 0.5 * 10.0**-decimals
    gained = lost_percent + net_points
    if gained < -slack or not 0 <= lost_percent <= 100:
        raise OutputsError(
            "a net change can be no worse than what was lost; got "
            f"lost_percent={lost_percent}, net_points={net_points}."
        )
    return Printed(percent=round(gained, 10), low=max(gained - slack, 0.0), high=gained + slack)


def cells_from_scores(
    *, items: int, before_percent: float, after_percent: float, gained: int, decimals: int = 2
) -> Transitions:
    """Recover all four cells from two printed accuracies and the count of one cell.

    Raises:
        OutputsError: If a printed accuracy is no count of so many items at its decimals, or the
            cells would not add up.
    """
    before = _count(before_percent, items=items, decimals=decimals)
    after = _count(after_percent, items=items, decimals=decimals)
    lost = before + gained - after
    cells = (before - lost, lost, gained, items - before - gained)
    if min(cells) < 0:
        raise OutputsError(
            f"the four cells must not be negative; got {cells} from items={items}, "
            f"before={before}, after={after}, gained={gained}."
        )
    return Transitions(
        right_right=cells[0], right_wrong=cells[1], wrong_right=cells[2], wrong_wrong=cells[3]
    )


def _count(percent: float, *, items: int, decimals: int) -> int:
    """Return the number of items that prints as this percentage."""
    nearest = round(percent * items / 100)
    fits = [n for n in (nearest - 1, nearest, nearest + 1) if 0 <= n <= items]
    fits = [n for n in fits if abs(100 * n / items - percent) <= 0.5 * 10.0**-decimals + 1e-9]
    if len(fits) != 1:
        raise OutputsError(
            f"a printed accuracy must be one count of {items} items at {decimals} decimals; got "
            f"{percent} %, which fits {len(fits)} counts."
        )
    return fits[0]
