"""Units that name what they are per: products of powers of a closed set of words.

`$/output token` and `$/processed token` are two units, so nothing adds or compares them by
accident. The set is closed so that a misspelt denominator is refused instead of becoming new.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from labkit.errors import PlanningError

BASE_UNITS: Final = frozenset(
    {
        "$",
        "GPU",
        "node",
        "s",
        "hour",
        "ms",
        "byte",
        "GB",
        "MB",
        "J",
        "output token",
        "processed token",  # prompt and output together
        "prompt token",
        "reasoning token",
        "token slot",
        "M output token",
        "M processed token",
        "block",
        "sequence",
        "query",
        "request",
        "attempt",
        "item",
        "success",
        "1,000 successes",
        "embedding",
        "percent",
    }
)
SCALES: Final[Mapping[str, tuple[Fraction, str]]] = {
    "hour": (Fraction(3600), "s"),
    "ms": (Fraction(1, 1000), "s"),
    "MB": (Fraction(10**6), "byte"),
    "GB": (Fraction(10**9), "byte"),
    "M output token": (Fraction(10**6), "output token"),
    "M processed token": (Fraction(10**6), "processed token"),
    "1,000 successes": (Fraction(1000), "success"),
    "percent": (Fraction(1, 100), ""),
}
"""Units that are another one times a number, by definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A product of powers of base units, sorted by name; empty for a plain number."""

    powers: tuple[tuple[str, int], ...] = ()

    def __mul__(self, other: Unit) -> Unit:
        """Add the powers."""
        return _unit([*self.powers, *other.powers])

    def __truediv__(self, other: Unit) -> Unit:
        """Subtract the powers."""
        return _unit([*self.powers, *((name, -power) for name, power in other.powers)])

    def __str__(self) -> str:
        """Return the text that `parse_unit` reads: `$/GPU/hour`."""
        above = "*".join(name for name, power in self.powers for _ in range(power))
        below = "".join(f"/{name}" for name, power in self.powers for _ in range(-power))
        return f"{above or 1}{below}" if below else above


PLAIN: Final = Unit()


def parse_unit(text: str) -> Unit:
    """Read a unit such as `output token/s`, `$/GPU/hour` or, for a plain number, an empty text.

    Raises:
        PlanningError: If a word is not one of the base units.
    """
    if text in ("", "1"):
        return PLAIN
    above, *below = (part.strip() for part in text.split("/"))
    tops = [] if above == "1" else [name.strip() for name in above.split("*")]
    for name in [*tops, *below]:
        if name not in BASE_UNITS:
            raise PlanningError(_unknown(name, text=text))
    return _unit([*((name, 1) for name in tops), *((name, -1) for name in below)])


def factor_between(one: Unit, other: Unit) -> Fraction:
    """Return how many of the other unit one of this is.

    Raises:
        PlanningError: If they do not measure the same thing.
    """
    (factor, base), (other_factor, other_base) = _reduced(one), _reduced(other)
    if base != other_base:
        raise PlanningError(
            f"A unit can only become one of the same kind; got {str(one)!r} and {str(other)!r}. "
            "Another denominator needs a measurement of its own."
        )
    return factor / other_factor


def _reduced(unit: Unit) -> tuple[Fraction, Unit]:
    factor, base = Fraction(1), PLAIN
    for name, power in unit.powers:
        scale, of = SCALES.get(name, (Fraction(1), name))
        factor *= scale**power
        base = base * Unit(powers=((of, power),) if of else ())
    return factor, base


def _unit(powers: Iterable[tuple[str, int]]) -> Unit:
    total: dict[str, int] = {}
    for name, power in powers:
        total[name] = total.get(name, 0) + power
    return Unit(powers=tuple(sorted(_without_zeros(total).items())))


def _without_zeros(total: Mapping[str, int]) -> dict[str, int]:
    return {name: power for name, power in total.items() if power}


def _unknown(name: str, *, text: str) -> str:
    near = difflib.get_close_matches(name, sorted(BASE_UNITS), n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(sorted(BASE_UNITS))}."
    return f"A unit must be made of known words; got {name!r} in unit={text!r}. {hint}"
