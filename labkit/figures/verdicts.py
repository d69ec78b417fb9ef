"""Where each criterion errs, from the stored verdict benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit import charts
from labkit.figures._benchmark import stored_benchmark
from labkit.sphinx_vega import chart_html

ORIGINS = ("verdicts",)


def render(results: Mapping[str, Any]) -> str:
    """Return the matrix of criteria and sizes of effects; it is the same for every run."""
    return chart_html(charts.as_stored(charts.verdict_matrix(stored_benchmark())))
