"""Results as figures and tables: each function takes a section of results.json.

The charts are Altair's; `enable()` makes them show in JupyterLab and in the book with no network.
"""

from labkit.charts.fingerprints import cache_growth
from labkit.charts.matrices import admission_matrix, fallback_matrix
from labkit.charts.numbers import glue_numbers, numbers_of
from labkit.charts.preservation import boundary, margins
from labkit.charts.printed import save_convergence
from labkit.charts.releases import release_changes, release_matrix
from labkit.charts.renderer import MIME, enable, mimebundle
from labkit.charts.rounding import convergence, rounding_ratios
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
from labkit.charts.verdicts import verdict_matrix

__all__ = [
    "MIME",
    "SourceFigure",
    "admission_matrix",
    "admission_table",
    "allocation_counts",
    "allocation_table",
    "answers_table",
    "boundary",
    "cache_growth",
    "convergence",
    "enable",
    "fallback_matrix",
    "fallbacks_table",
    "fingerprint_table",
    "glue_numbers",
    "load_reference",
    "margins",
    "mimebundle",
    "numbers_of",
    "preservation_table",
    "release_changes",
    "release_matrix",
    "rounding_ratios",
    "save_convergence",
    "side_by_side",
    "verdict_matrix",
    "verdict_table",
]
