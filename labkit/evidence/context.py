"""Effective context as a bracket: the last length that passed and the first that failed.

Between the two nothing was measured, so nothing is said; beyond the longest tested length
neither. The threshold belongs to the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeGuard

from labkit.errors import EvidenceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """How a task went at one length.

    Attributes:
        length: Tokens of context.
        passed: Trials that met the task's criterion; None where the cell was not evaluated, or
            was thrown out.
        trials: Trials at this length.
    """

    length: int
    passed: int | None
    trials: int

    def __post_init__(self) -> None:
        counts = {"length": self.length, "trials": self.trials}
        for name, value in counts.items():
            _above_zero(value, name=name)
        if self.passed is not None and not (
            _is_count(self.passed) and 0 <= self.passed <= self.trials
        ):
            raise EvidenceError(
                "`passed` must be a whole number from 0 to the trials, or null where the length "
                f"was not evaluated; got passed={self.passed!r}, trials={self.trials}, "
                f"length={self.length}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """Between which tested lengths a task crosses a threshold.

    Attributes:
        threshold: The least share of passed trials that is acceptable.
        first_pass: The shortest evaluated length, if it passed, or None.
        last_pass: The longest evaluated length up to which every evaluated one passed, or None.
        first_fail: The shortest evaluated length that failed, or None.
        passed_beyond: Lengths that passed beyond the first fail; they do not extend the range.
        not_evaluated: Lengths of the plan without a result.
    """

    threshold: Fraction
    first_pass: int | None
    last_pass: int | None
    first_fail: int | None
    passed_beyond: tuple[int, ...]
    not_evaluated: tuple[int, ...]

    def supports(self, length: int) -> bool | None:
        """Return whether a length is inside what passed; None where nothing was measured.

        Nothing was where a planned length was not evaluated, below the shortest pass, between the
        last pass and the first fail, and beyond the longest length.

        Raises:
            EvidenceError: If the length is no count of tokens.
        """
        _above_zero(length, name="length")
        if length in self.not_evaluated:
            return None
        if (self.first_pass or math.inf) <= length <= (self.last_pass or 0):
            return True
        return False if self.first_fail is not None and length >= self.first_fail else None

    def __str__(self) -> str:
        """State the range with its threshold, and what was left out."""
        text = f"{self._range()} at a threshold of {float(self.threshold):.3g}"
        if self.passed_beyond:
            text += f"; passes again at {_listed(self.passed_beyond)}, which extends nothing"
        if self.not_evaluated:
            text += f"; not evaluated at {_listed(self.not_evaluated)}"
        return text

    def _range(self) -> str:
        if self.first_fail is None:
            return f"at least {self.last_pass:,}, the longest length evaluated,"
        if self.last_pass is None:
            return f"below {self.first_fail:,}, the shortest length evaluated,"
        return f"between {self.last_pass:,} (passed) and {self.first_fail:,} (failed)"


def effective_context(cells: Iterable[Trials], *, threshold: str | float) -> Bracket:
    """Return where a task crosses a declared threshold.

    A length counts as supported only if every shorter evaluated length passed too.

    Args:
        cells: The trials at each length, in any order.
        threshold: Share of trials that must pass, above 0 and at most 1.

    Raises:
        EvidenceError: If no length was evaluated, one comes twice, or the threshold is no share.
    """
    ordered = sorted(cells, key=lambda cell: cell.length)
    share = _share(threshold)
    lengths = [cell.length for cell in ordered]
    if twice := sorted({length for length in lengths if lengths.count(length) > 1}):
        raise EvidenceError(
            f"Each length must come once; got {_listed(twice)} twice. Join its trials first."
        )
    passes = {
        cell.length: Fraction(cell.passed, cell.trials) >= share
        for cell in ordered
        if cell.passed is not None
    }
    if not passes:
        raise EvidenceError(f"At least one length must be evaluated; got {len(ordered)} without.")
    first_fail = next((length for length, passed in passes.items() if not passed), None)
    good = [length for length, passed in passes.items() if passed]
    before = [length for length in good if first_fail is None or length < first_fail]
    return Bracket(
        threshold=share,
        first_pass=min(before, default=None),
        last_pass=max(before, default=None),
        first_fail=first_fail,
        passed_beyond=tuple(length for length in good if length not in before),
        not_evaluated=tuple(cell.length for cell in ordered if cell.passed is None),
    )


def _share(threshold: str | float) -> Fraction:
    try:
        share = Fraction(str(threshold))
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        raise EvidenceError(
            "`threshold` must be a share of trials, above 0 and at most 1; "
            f"got threshold={threshold!r}. Declare it before looking at the curve."
        )
    return share


def _above_zero(value: object, *, name: str) -> None:
    if not _is_count(value) or value < 1:
        raise EvidenceError(f"`{name}` must be a whole number above zero; got {name}={value!r}.")


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _listed(lengths: Iterable[int]) -> str:
    return ", ".join(f"{length:,}" for length in lengths)
