"""Two sets of outputs for the same items: did the text change, and did the task?"""

from labkit.paired.aggregates import statistical
from labkit.paired.contracts import CONTRACTS
from labkit.paired.impact import Divergence, Impact, ItemImpact, measure_impact
from labkit.paired.intervals import Interval, cluster_interval, exact_net_interval, mcnemar_p
from labkit.paired.limits import Limits
from labkit.paired.pairs import Pair, pair_outputs
from labkit.paired.transitions import (
    Transitions,
    cells_from_scores,
    count_transitions,
    gained_percent,
)
from labkit.paired.verdict import Verdict

__all__ = [
    "CONTRACTS",
    "Divergence",
    "Impact",
    "Interval",
    "ItemImpact",
    "Limits",
    "Pair",
    "Transitions",
    "Verdict",
    "cells_from_scores",
    "cluster_interval",
    "count_transitions",
    "exact_net_interval",
    "gained_percent",
    "mcnemar_p",
    "measure_impact",
    "pair_outputs",
    "statistical",
]
