"""A number that knows its unit, how it was come by, and from where.

Arithmetic refuses to add or compare two different units, and what comes out of it is at best
`derived`: no calculation makes a measurement out of an estimate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final

from labkit.errors import PlanningError
from labkit.planning.units import Unit, factor_between, parse_unit

MEASURED: Final = "measured"
DERIVED: Final = "derived"
ESTIMATED: Final = "estimated"
LABELS: Final = (MEASURED, DERIVED, ESTIMATED)  # from the strongest to the weakest

MOST_DIGITS: Final = 30
"""Before or behind the point; a longer number is a mistake, and would be slow."""

_GROUPED: Final = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A value with its unit, its label and its sources; exact, and rounded only when shown.

    Attributes:
        value: The number.
        unit: What it counts and per what.
        label: `measured`, `derived` (calculated from measurements) or `estimated`.
        sources: Where the numbers in it come from, each once.
    """

    value: Fraction
    unit: Unit
    label: str
    sources: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.label not in LABELS:
            raise PlanningError(
                f"A label must be one of {', '.join(LABELS)}; got label={self.label!r}."
            )
        if not self.sources or not all(self.sources):
            raise PlanningError(
                f"A quantity must name its source; got sources={self.sources!r} for {self}."
            )

    def __add__(self, other: Quantity) -> Quantity:
        """Add what has the same unit."""
        _same_unit(self, other, doing="added")
        return self._made(self.value + other.value, self.unit, other)

    def __sub__(self, other: Quantity) -> Quantity:
        """Subtract what has the same unit."""
        _same_unit(self, other, doing="subtracted")
        return self._made(self.value - other.value, self.unit, other)

    def __mul__(self, other: Quantity) -> Quantity:
        """Multiply values and units."""
        return self._made(self.value * other.value, self.unit * other.unit, other)

    def __truediv__(self, other: Quantity) -> Quantity:
        """Divide values and units; `ratio_to` is the one that wants equal units."""
        if not other.value:
            raise PlanningError(f"A divisor must not be zero; got {other} from {other.origin}.")
        return self._made(self.value / other.value, self.unit / other.unit, other)

    def ratio_to(self, other: Quantity) -> Quantity:
        """Return how many times the other this is; both have the same unit."""
        _same_unit(self, other, doing="compared")
        return self / other

    def exceeds(self, other: Quantity) -> bool:
        """Return whether this is larger than another of the same unit."""
        _same_unit(self, other, doing="compared")
        return self.value > other.value

    def to(self, unit: str) -> Quantity:
        """Return the same in another unit of the same kind, such as seconds for hours."""
        target = parse_unit(unit)
        factor = factor_between(self.unit, target)
        return replace(self, value=self.value * factor, unit=target)

    def weakened(self, label: str) -> Quantity:
        """Return this with a label that claims less, or the same.

        Raises:
            PlanningError: If the label would claim more, or is unknown.
        """
        weaker = replace(self, label=label)
        if LABELS.index(label) < LABELS.index(self.label):
            raise PlanningError(
                f"A label can only be weakened; got label={label!r} for a value that is "
                f"{self.label}: {self}. Measure it to call it so."
            )
        return weaker

    @property
    def origin(self) -> str:
        """The sources as one text."""
        return "; ".join(self.sources)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "value": float(self.value),
            "unit": str(self.unit),
            "label": self.label,
            "sources": list(self.sources),
        }

    def __str__(self) -> str:
        """Return value, unit and label for a reader."""
        return f"{float(self.value):.6g} {self.unit} ({self.label})".replace("  ", " ")

    def _made(self, value: Fraction, unit: Unit, other: Quantity) -> Quantity:
        return Quantity(
            value=value,
            unit=unit,
            label=weakest(DERIVED, self.label, other.label),
            sources=tuple(dict.fromkeys((*self.sources, *other.sources))),
        )


def quantity(value: str | int | float, unit: str, *, label: str, source: str) -> Quantity:
    """Make a quantity from a number or its text.

    Raises:
        PlanningError: If the value is not a finite number, or unit or label are unknown.
    """
    exact = number(value, name=source)
    return Quantity(value=exact, unit=parse_unit(unit), label=label, sources=(source,))


def number(value: str | int | float, *, name: str = "value") -> Fraction:
    """Return a number exactly; a text may have thousands separated by commas.

    Raises:
        PlanningError: If it is not a finite number of a reasonable length, or its commas stand
            elsewhere than between groups of three digits.
    """
    text = str(value).replace("\N{MINUS SIGN}", "-")
    # Decimal would take an underscore anywhere, and a decimal comma is not a thousand.
    if ("," in text or "_" in text) and not _GROUPED.fullmatch(text):
        raise PlanningError(
            "A number must have commas between groups of three digits only, and no underscore; "
            f"got {name}={value!r}. A decimal point is a point: write 3.50."
        )
    try:
        exact = Decimal(text.replace(",", ""))
    except InvalidOperation:
        exact = Decimal("nan")
    if not exact.is_finite() or isinstance(value, bool):
        raise PlanningError(f"A number must be finite; got {name}={value!r}.")
    if max(exact.adjusted(), -int(exact.as_tuple().exponent)) > MOST_DIGITS:
        raise PlanningError(
            f"A number must have at most {MOST_DIGITS} digits on each side of the point; "
            f"got {name}={value!r}."
        )
    return Fraction(exact)


def positive(item: Quantity, *, name: str, unit: str) -> Quantity:
    """Return a quantity that is above zero and has the unit a formula needs.

    Raises:
        PlanningError: If it is not, by name and number.
    """
    if item.unit != parse_unit(unit):
        raise PlanningError(
            f"`{name}` must be in {unit!r}; got {item} from {item.origin}. "
            "Convert it, or measure what the formula asks for."
        )
    if item.value <= 0:
        raise PlanningError(f"`{name}` must be above zero; got {name}={float(item.value):g}.")
    return item


def whole(item: Quantity, *, name: str) -> Quantity:
    """Return a quantity that counts whole things.

    Raises:
        PlanningError: If it is not a whole number, by name and number.
    """
    if item.value.denominator != 1:
        raise PlanningError(
            f"`{name}` must be a whole number; got {name}={float(item.value):g} {item.unit}."
        )
    return item


def weakest(*labels: str) -> str:
    """Return the label that claims least."""
    return max(labels, key=LABELS.index)


def _same_unit(one: Quantity, other: Quantity, *, doing: str) -> None:
    if one.unit != other.unit:
        raise PlanningError(
            f"Only quantities of one unit can be {doing}; got {one} and {other}. "
            "Bring both to the same denominator first."
        )
