"""How many sequences a pool holds: all of one length, a given mix, or draws from one.

These are bounds for planning. No engine was asked whether the first sequence beyond them fails,
and none of them says that the answers are good or in time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from labkit.errors import PlanningError
from labkit.planning.formulas import formula
from labkit.planning.need import Need
from labkit.planning.pool import Pool, counted, pool_of_tokens
from labkit.planning.quantity import DERIVED, Quantity, number, positive, weakest, whole
from labkit.planning.units import parse_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How many sequences a pool holds.

    Attributes:
        surely: So many fit whatever is not known; None where that cannot be said.
        at_most: More cannot fit; None where what is known of a sequence takes no room.
        label: How far to trust it: `derived` from a measured pool, or `estimated`.
        why: Why the two differ, or an empty text.
    """

    surely: int | None
    at_most: int | None
    label: str
    why: str = ""

    def holds(self, sequences: int) -> bool | None:
        """Return whether so many fit, None where that is not known."""
        return _holds(sequences, surely=self.surely, at_most=self.at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How many sequences of mixed lengths a pool holds.

    Attributes:
        sequences: How many lengths were given.
        together: Whether the given ones fit all at once, None where that is not known.
        needed: What they surely need together, in the pool's unit; None where not known.
        usable: What the pool may give out, in the same unit.
        all_shortest: More cannot fit, were every one as short as the shortest; None where what is
            known of that one takes no room.
        all_longest: So many fit if every one is as long as the longest.
        at_confidence: So many independent draws fit with the declared confidence.
        on_average: So many fit if every one is as long as the mean; half of all draws are worse.
        confidence: The declared confidence.
        label: How far to trust it.
    """

    sequences: int
    together: bool | None
    needed: int | None
    usable: int
    all_shortest: int | None
    all_longest: int | None
    at_confidence: int | None
    on_average: int | None
    confidence: float
    label: str

    def holds(self, sequences: int) -> bool | None:
        """Return whether so many draws fit with the confidence, None where that is not known."""
        return _holds(sequences, surely=self.at_confidence, at_most=self.all_shortest)


def equal_length_bound(pool: Pool, need: Need) -> Bound:
    """Return how many sequences of one need the pool holds."""
    return Bound(
        surely=None if need.most is None else pool.usable // need.most,
        at_most=_at_most(pool, need.least),
        label=weakest(DERIVED, pool.size.label),
        why=need.why,
    )


def mixed_length_bound(pool: Pool, needs: Sequence[Need], *, confidence: float = 0.99) -> Mix:
    """Return whether given sequences fit together, and how many like them would.

    Draws from the given lengths are taken to be independent, and Hoeffding's inequality bounds
    their sum, so the count at a confidence errs towards fewer.

    Args:
        pool: What they share.
        needs: What each takes.
        confidence: Probability that the drawn sequences fit, above 0 and below 1.

    Raises:
        PlanningError: If there is no length, or the confidence is no probability.
    """
    if not needs:
        raise PlanningError("A mix must have at least one length; got none.")
    if not 0 < number(confidence, name="confidence") < 1:
        raise PlanningError(
            f"`confidence` must be above 0 and below 1; got confidence={confidence!r}."
        )
    known = [need.most for need in needs if need.most is not None]
    complete = len(known) == len(needs)
    return Mix(
        sequences=len(needs),
        together=_together(pool, needs),
        needed=sum(known) if complete else None,
        usable=pool.usable,
        all_shortest=_at_most(pool, min(need.least for need in needs)),
        all_longest=pool.usable // max(known) if complete else None,
        at_confidence=_at_confidence(pool.usable, known, confidence) if complete else None,
        on_average=int(pool.usable / Fraction(sum(known), len(known))) if complete else None,
        confidence=confidence,
        label=weakest(DERIVED, pool.size.label),
    )


@formula
def equal_length_sequences(*, pool: Quantity, block: Quantity, length: Quantity) -> Quantity:
    """Return the equal-length bound of a pool of token slots, its blocks counted whole.

    Args:
        pool: In `token slot`.
        block: In `token slot/block`.
        length: Prompt and reserved output, in `token slot/sequence`.

    Raises:
        PlanningError: If one is not a whole number above zero, or in another unit.
    """
    slots = _count(positive(pool, name="pool", unit="token slot"), name="pool")
    per_block = _count(positive(block, name="block", unit="token slot/block"), name="block")
    reserved = _count(positive(length, name="length", unit="token slot/sequence"), name="length")
    held = pool_of_tokens(slots, block_tokens=per_block)
    blocks = -(-reserved // per_block)
    exact = pool / length  # carries the labels and the sources
    return Quantity(
        value=Fraction(held.usable // blocks),
        unit=parse_unit("sequence"),
        label=exact.label,
        sources=exact.sources,
    )


def _holds(sequences: int, *, surely: int | None, at_most: int | None) -> bool | None:
    if at_most is not None and sequences > at_most:
        return False
    return True if surely is not None and sequences <= surely else None


def _at_most(pool: Pool, least: int) -> int | None:
    return pool.usable // least if least else None


def _together(pool: Pool, needs: Sequence[Need]) -> bool | None:
    if sum(need.least for need in needs) > pool.usable:
        return False
    most = [need.most for need in needs if need.most is not None]
    return True if len(most) == len(needs) and sum(most) <= pool.usable else None


def _at_confidence(usable: int, needs: Sequence[int], confidence: float) -> int:
    """Return the largest n with n·mean + spread·√(n·ln(1/δ)/2) within the pool."""
    mean, spread = sum(needs) / len(needs), max(needs) - min(needs)
    slack = spread * math.sqrt(-math.log1p(-confidence) / 2)
    root = (math.sqrt(slack**2 + 4 * mean * usable) - slack) / (2 * mean)
    n = int(root**2)
    n -= n * mean + slack * math.sqrt(n) > usable  # the root is a rounded one
    # Never fewer than fit when all are as long as the longest, which needs no probability.
    return max(n, usable // max(needs))


def _count(item: Quantity, *, name: str) -> int:
    return counted(int(whole(item, name=name).value), name=name)
