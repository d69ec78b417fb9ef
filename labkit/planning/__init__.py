"""Capacity and cost before anything is served, each number with its unit, label and source.

Only the standard library: what decides must run anywhere.
"""

from labkit.planning.capacity import (
    Bound,
    Mix,
    equal_length_bound,
    equal_length_sequences,
    mixed_length_bound,
)
from labkit.planning.cost import (
    cost_per_million,
    cost_per_success,
    cost_per_thousand_successes,
    cost_per_thousand_successes_by_rate,
)
from labkit.planning.effects import (
    change_percent,
    difference,
    ratio,
    relative_error,
    share_percent,
)
from labkit.planning.formulas import FORMULAS, apply_formula, formula
from labkit.planning.need import Need, need_of
from labkit.planning.pool import (
    Pool,
    pool_of_blocks,
    pool_of_bytes,
    pool_of_tokens,
    usable_bytes,
)
from labkit.planning.printed import PrintedFigure, Recomputed, load_printed, recompute
from labkit.planning.quantity import LABELS, Quantity, quantity, weakest

__all__ = [
    "FORMULAS",
    "LABELS",
    "Bound",
    "Mix",
    "Need",
    "Pool",
    "PrintedFigure",
    "Quantity",
    "Recomputed",
    "apply_formula",
    "change_percent",
    "cost_per_million",
    "cost_per_success",
    "cost_per_thousand_successes",
    "cost_per_thousand_successes_by_rate",
    "difference",
    "equal_length_bound",
    "equal_length_sequences",
    "formula",
    "load_printed",
    "mixed_length_bound",
    "need_of",
    "pool_of_blocks",
    "pool_of_bytes",
    "pool_of_tokens",
    "quantity",
    "ratio",
    "recompute",
    "relative_error",
    "share_percent",
    "usable_bytes",
    "weakest",
]
