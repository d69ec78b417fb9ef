"""How sure a net change is: exact tests on the discordant pairs, and a bootstrap over clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, betaincinv, ndtri

from labkit.paired.transitions import Transitions

LEVEL = 0.95
RESAMPLES = 9999
SEED = 10
MIN_CLUSTERS = 5
"""Fewer clusters than this hardly resample at all, and their interval would look certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An interval in percentage points.

    Attributes:
        low: Its lower end.
        high: Its upper end.
        method: How it was made.
    """

    low: float
    high: float
    method: str


def mcnemar_p(cells: Transitions) -> float | None:
    """Return the exact two-sided p-value that losses and gains are equally likely.

    None if no outcome changed: there is nothing to test.
    """
    if not cells.changed:
        return None
    fewer = min(cells.wrong_right, cells.right_wrong)
    return float(min(1.0, 2 * bdtr(fewer, cells.changed, 0.5)))


def share_interval(count: int, items: int, *, level: float = LEVEL) -> Interval:
    """Return the exact (Clopper-Pearson) interval of a share, in percent."""
    error = (1 - level) / 2
    low = betaincinv(count, items - count + 1, error) if count else 0.0
    high = betaincinv(count + 1, items - count, 1 - error) if count < items else 1.0
    return Interval(low=100 * float(low), high=100 * float(high), method="Clopper-Pearson")


def score_difference_interval(
    before: tuple[int, int], after: tuple[int, int], *, level: float = LEVEL
) -> Interval:
    """Return Newcombe's interval of the difference of two shares, for items that are independent.

    It stays open where every item is right or none is, and there no resample would differ.

    Args:
        before: How many items succeeded, and how many there are.
        after: The same of the other side.
        level: Share of studies whose interval holds the true difference.
    """
    shares = [100 * count / items for count, items in (before, after)]
    (a_low, a_high), (b_low, b_high) = (_wilson(*side, level=level) for side in (before, after))
    net = shares[1] - shares[0]
    return Interval(
        low=net - math.hypot(shares[1] - b_low, a_high - shares[0]),
        high=net + math.hypot(b_high - shares[1], shares[0] - a_low),
        method="Newcombe's score interval over items",
    )


def _wilson(count: int, items: int, *, level: float) -> tuple[float, float]:
    z = float(ndtri((1 + level) / 2))
    share = count / items
    middle = share + z * z / (2 * items)
    reach = z * math.sqrt(share * (1 - share) / items + (z / (2 * items)) ** 2)
    low, high = ((middle + sign * reach) / (1 + z * z / items) for sign in (-1, 1))
    # Where no item succeeded, or all did, an end is exact and must not be off by a rounding.
    return 100 * (low if count else 0.0), 100 * (high if count < items else 1.0)


def hull(first: Interval, second: Interval | None) -> Interval:
    """Return the interval that holds both, so that what either knows of is not forgotten."""
    if second is None:
        return first
    return Interval(
        low=min(first.low, second.low),
        high=max(first.high, second.high),
        method=f"hull of: {first.method}; {second.method}",
    )


def exact_net_interval(cells: Transitions, *, level: float = LEVEL) -> Interval:
    """Return an interval of the net change that holds at any size, for items that are independent.

    Gains and losses each get an exact interval at half the error; their difference cannot leave
    the two ends. It is wider than it need be, and stays open where nothing changed.
    """
    half = (1 + level) / 2
    gained = share_interval(cells.wrong_right, cells.items, level=half)
    lost = share_interval(cells.right_wrong, cells.items, level=half)
    return Interval(
        low=gained.low - lost.high,
        high=gained.high - lost.low,
        method="exact bounds of gains and losses",
    )


def cluster_interval(
    changes: Sequence[int],
    clusters: Sequence[str],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval | None:
    """Return the percentile bootstrap interval of the net change over whole clusters.

    Clusters of one size and one change are interchangeable, so drawing clusters is drawing
    counts of such kinds: the same distribution as drawing them one by one, at a size that does
    not grow with the items.

    Args:
        changes: +1 gained, -1 lost, 0 neither, one an item.
        clusters: The cluster of each item.
        level: Share of resamples inside.
        resamples: How many.
        seed: Of the draws.

    Returns:
        The interval, or None with fewer than `MIN_CLUSTERS` clusters, or where no outcome
        changed and every resample would be the same.
    """
    numbers: dict[str, int] = {}  # in the order of the items: sorting their names takes longer
    members = [numbers.setdefault(name, len(numbers)) for name in clusters]
    if len(numbers) < MIN_CLUSTERS or not any(changes):
        return None
    sizes = np.bincount(members)
    nets = np.bincount(members, weights=np.asarray(changes, dtype=float))
    kinds, counts = np.unique(np.stack([nets, sizes]), axis=1, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(
        len(numbers), counts / len(numbers), size=resamples
    )
    points = 100 * (drawn @ kinds[0]) / (drawn @ kinds[1])
    low, high = np.quantile(points, [(1 - level) / 2, (1 + level) / 2])
    return Interval(
        low=float(low),
        high=float(high),
        method=f"bootstrap over {len(numbers)} clusters, {resamples} resamples, seed {seed}",
    )
