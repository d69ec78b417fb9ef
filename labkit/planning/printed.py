"""Hold a printed figure against what its printed inputs give.

A printed input stands for every number that rounds to it, so a recomputed figure is an interval.
The printed figure agrees where the value of the inputs as printed rounds to it; it is within
rounding where some inputs that round to the printed ones would give it; otherwise it disagrees.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Final

from labkit.errors import PlanningError
from labkit.files import load_json_strict
from labkit.planning.formulas import apply_formula
from labkit.planning.quantity import Quantity, number
from labkit.planning.units import parse_unit

AGREES: Final = "agrees"
WITHIN_ROUNDING: Final = "within rounding"
DISAGREES: Final = "disagrees"
AGREEMENTS: Final = (AGREES, WITHIN_ROUNDING, DISAGREES)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedInput:
    """A number as it is printed.

    Attributes:
        value: Its text, whose digits say how far it was rounded.
        unit: Its unit.
        label: `measured`, `derived`, `estimated`.
        place: Where it is printed; the case's place where it stands in the same one.
        exact: Whether it is a count or an assumption, which nobody rounded.
    """

    value: str
    unit: str
    label: str = "measured"
    place: str = ""
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedFigure:
    """A figure of a text that can be recomputed from numbers of the same text.

    Attributes:
        key: Its name, which begins with its topic.
        place: Chapter and table, figure or section where the figure is printed.
        what: What it is, in words.
        formula: The formula that gives it.
        inputs: The formula's inputs by name.
        printed: The figure as printed.
        unit: Its unit.
        agreement: What the comparison gives.
        why: Why the case is there; for a disagreement, what the reader should know.
    """

    key: str
    place: str
    what: str
    formula: str
    inputs: Mapping[str, PrintedInput]
    printed: str
    unit: str
    agreement: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """A printed figure beside ours.

    Attributes:
        figure: What was printed.
        ours: What the printed inputs give.
        low: The least that inputs rounding to the printed ones give.
        high: The most.
        agreement: `agrees`, `within rounding` or `disagrees`.
    """

    figure: PrintedFigure
    ours: Quantity
    low: Fraction
    high: Fraction
    agreement: str

    @property
    def shown(self) -> str:
        """Ours, with one digit more than was printed, so that rounding can be seen."""
        digits = _decimals(self.figure.printed)
        whole = self.ours.value.denominator == 1 and not digits
        return f"{float(self.ours.value):,.{0 if whole else digits + 1}f}"


def recompute(figure: PrintedFigure) -> Recomputed:
    """Apply a figure's formula to its inputs and compare.

    Raises:
        PlanningError: If the formula, an input or a unit does not fit.
    """
    ours = _apply(figure, {})
    # Every formula is monotone in each input, so the extremes lie at corners.
    steps = {name: _half_step(item) for name, item in figure.inputs.items()}
    moved = [name for name, half in steps.items() if half]
    corners = [
        _apply(figure, {name: sign * steps[name] for name, sign in zip(moved, signs, strict=True)})
        for signs in itertools.product((-1, 1), repeat=len(moved))
    ]
    values = [corner.value for corner in corners]
    low, high = min(values), max(values)
    return Recomputed(
        figure=figure,
        ours=ours,
        low=low,
        high=high,
        agreement=_agreement(figure.printed, ours.value, low=low, high=high),
    )


def load_printed(path: Path) -> tuple[PrintedFigure, ...]:
    """Read a file of printed figures.

    Raises:
        PlanningError: If it cannot be read, an entry is malformed, or two have one key.
    """
    stored = load_json_strict(path, what="Printed figures", error=PlanningError)
    try:
        figures = tuple(_figure(row) for row in stored["figures"])
    except (KeyError, TypeError, AttributeError) as error:
        known = ", ".join(field.name for field in fields(PrintedFigure))
        raise PlanningError(
            f'Printed figures must be {{"figures": [{{{known}}}]}}; got {path.name}: {error}.'
        ) from error
    keys = [figure.key for figure in figures]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise PlanningError(f"Each printed figure needs its own key; got {', '.join(twice)} twice.")
    return figures


def _figure(row: Mapping[str, object]) -> PrintedFigure:
    inputs = {name: PrintedInput(**item) for name, item in row["inputs"].items()}  # type: ignore[attr-defined]
    return PrintedFigure(**{**row, "inputs": inputs})  # type: ignore[arg-type]


def _apply(figure: PrintedFigure, shifts: Mapping[str, Fraction]) -> Quantity:
    inputs = {
        name: Quantity(
            value=number(item.value, name=name) + shifts.get(name, 0),
            unit=parse_unit(item.unit),
            label=item.label,
            sources=(item.place or figure.place,),
        )
        for name, item in figure.inputs.items()
    }
    return apply_formula(figure.formula, inputs).to(figure.unit)


def _agreement(printed: str, ours: Fraction, *, low: Fraction, high: Fraction) -> str:
    value, half = number(printed), _half_of(printed)
    if abs(ours - value) <= half:
        return AGREES
    return WITHIN_ROUNDING if low <= value + half and high >= value - half else DISAGREES


def _half_step(item: PrintedInput) -> Fraction:
    return Fraction(0) if item.exact else _half_of(item.value)


def _half_of(text: str) -> Fraction:
    return Fraction(1, 2 * 10 ** _decimals(text))


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])
