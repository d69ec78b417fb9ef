"""How sure a net change is: exact tests on the discordant pairs, and a bootstrap over clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

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
    return float(binomtest(cells.wrong_right, cells.changed).pvalue)


def share_interval(count: int, items: int, *, level: float = LEVEL) -> Interval:
    """Return the exact (Clopper-Pearson) interval of a share, in percent."""
    found = binomtest(count, items).proportion_ci(level, method="exact")
    return Interval(
        low=100 * float(found.low), high=100 * float(found.high), method="Clopper-Pearson"
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
    names, members = np.unique(np.asarray(clusters), return_inverse=True)
    if len(names) < MIN_CLUSTERS or not any(changes):
        return None
    sizes = np.bincount(members)
    nets = np.bincount(members, weights=np.asarray(changes, dtype=float))
    kinds, counts = np.unique(np.stack([nets, sizes]), axis=1, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(len(names), counts / len(names), size=resamples)
    points = 100 * (drawn @ kinds[0]) / (drawn @ kinds[1])
    low, high = np.quantile(points, [(1 - level) / 2, (1 + level) / 2])
    return Interval(
        low=float(low),
        high=float(high),
        method=f"bootstrap over {len(names)} clusters, {resamples} resamples, seed {seed}",
    )
