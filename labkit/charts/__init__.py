"""Results as figures and tables: each function takes a section of results.json.

The charts are Altair's; `enable()` makes them show in JupyterLab and in the book with no network.
"""

from labkit.charts.boundary import boundary
from labkit.charts.capacity import (
    capacity_growth,
    capacity_table,
    comparison_table,
    context_table,
    printed_table,
)
from labkit.charts.fingerprints import cache_growth
from labkit.charts.margins import margins
from labkit.charts.matrices import admission_matrix, fallback_matrix
from labkit.charts.numbers import glue_numbers, numbers_of
from labkit.charts.printed import save_convergence
from labkit.charts.records import audit_table, record_differences, record_table
from labkit.charts.releases import release_changes, release_matrix, stack_answers
from labkit.charts.renderer import MIME, as_stored, enable, mimebundle
from labkit.charts.rounding import convergence, rounding_ratios
from labkit.charts.scores import (
    cap_knee,
    changed_items_table,
    disputed_table,
    extractor_spread,
    impact_table,
    lengths_table,
    scores_table,
    sweep_table,
    transition_matrix,
    verdicts_table,
)
from labkit.charts.source import SourceFigure, load_reference, side_by_side
from labkit.charts.tables import (
    admission_table,
    allocation_counts,
    allocation_table,
    answers_table,
    fallbacks_table,
    fingerprint_table,
    preservation_table,
    verdict_table,
)
from labkit.charts.verdict_tables import (
    experts_table,
    reference_table,
    too_small_table,
    widths_table,
)
from labkit.charts.verdicts import verdict_matrix

__all__ = [
    "MIME",
    "SourceFigure",
    "admission_matrix",
    "admission_table",
    "allocation_counts",
    "allocation_table",
    "answers_table",
    "as_stored",
    "audit_table",
    "boundary",
    "cache_growth",
    "cap_knee",
    "capacity_growth",
    "capacity_table",
    "changed_items_table",
    "comparison_table",
    "context_table",
    "convergence",
    "disputed_table",
    "enable",
    "experts_table",
    "extractor_spread",
    "fallback_matrix",
    "fallbacks_table",
    "fingerprint_table",
    "glue_numbers",
    "impact_table",
    "lengths_table",
    "load_reference",
    "margins",
    "mimebundle",
    "numbers_of",
    "preservation_table",
    "printed_table",
    "record_differences",
    "record_table",
    "reference_table",
    "release_changes",
    "release_matrix",
    "rounding_ratios",
    "save_convergence",
    "scores_table",
    "side_by_side",
    "stack_answers",
    "sweep_table",
    "too_small_table",
    "transition_matrix",
    "verdict_matrix",
    "verdict_table",
    "verdicts_table",
    "widths_table",
]
