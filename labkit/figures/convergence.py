"""Each option's distance from the reference at each precision, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit import charts
from labkit.sphinx_vega import chart_html

SECTION = "preservation"


def render(results: Mapping[str, Any]) -> str:
    """Return the convergence figure of the run."""
    return chart_html(charts.as_stored(charts.convergence(results["preservation"])))
