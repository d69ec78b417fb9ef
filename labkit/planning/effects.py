"""What one number says about another: how many times, how much less, how far off a target."""

from __future__ import annotations

from labkit.planning.formulas import formula
from labkit.planning.quantity import Quantity


@formula
def ratio(*, of: Quantity, to: Quantity) -> Quantity:
    """Return how many times the second the first is; both in one unit."""
    return of.ratio_to(to)


@formula
def difference(*, of: Quantity, minus: Quantity) -> Quantity:
    """Return the first less the second: a score before a change less the one after it."""
    return of - minus


@formula
def share_percent(*, part: Quantity, of: Quantity) -> Quantity:
    """Return a part as a percentage of the whole; both in one unit."""
    return part.ratio_to(of).to("percent")


@formula
def relative_error(*, actual: Quantity, requested: Quantity) -> Quantity:
    """Return how far the actual lies from the requested, in units of the requested.

    Positive where more was used than asked for.
    """
    return (actual - requested).ratio_to(requested)


@formula
def change_percent(*, after: Quantity, before: Quantity) -> Quantity:
    """Return the change as a percentage of what it was before."""
    return relative_error(actual=after, requested=before).to("percent")


@formula
def slowdown_as_loss_percent(*, factor: Quantity) -> Quantity:
    """Return the percentage of throughput that is lost when it is divided by a factor."""
    one = factor.ratio_to(factor)
    return (one - one / factor).to("percent")


@formula
def total(*, one: Quantity, another: Quantity) -> Quantity:
    """Return the sum of two counts of one unit."""
    return one + another


@formula
def restated(*, value: Quantity) -> Quantity:
    """Return a number as it is, for one that the same text states in two places."""
    return value
