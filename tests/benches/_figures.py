"""What a bench yields, and how its two sides are timed."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAIRS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure.

    Attributes:
        name: What was measured.
        value: The median.
        low: The smallest of the repetitions.
        high: The largest.
        unit: Of all three.
        target: The bound, or None for a figure that is only reported.
        at_most: Whether the bound is an upper one.
        note: What each side of the comparison was.
    """

    name: str
    value: float
    low: float
    high: float
    unit: str
    target: float | None
    at_most: bool
    note: str

    @property
    def holds(self) -> bool:
        """Return whether the median keeps the bound."""
        if self.target is None:
            return True
        return self.value <= self.target if self.at_most else self.value >= self.target


def figure(
    name: str,
    values: Sequence[float],
    *,
    unit: str,
    target: float | None,
    at_most: bool,
    note: str,
) -> Figure:
    """Return a figure from its repetitions."""
    return Figure(
        name=name,
        value=round(statistics.median(values), 4),
        low=round(min(values), 4),
        high=round(max(values), 4),
        unit=unit,
        target=target,
        at_most=at_most,
        note=note,
    )


def seconds(action: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    began_s = time.perf_counter()
    action()
    return time.perf_counter() - began_s


def ratios(left: Callable[[], object], right: Callable[[], object], *, pairs: int) -> list[float]:
    """Return left's time over right's, pair by pair, after one call of each to warm up."""
    left(), right()
    return [seconds(left) / seconds(right) for _ in range(pairs)]


def python(code: str) -> Callable[[], object]:
    """Return a call that runs code in a fresh interpreter and fails loudly."""
    command = [sys.executable, "-c", code]
    return lambda: subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
