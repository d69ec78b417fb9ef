"""How sure the baseline was, with a slider for the near-tie threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit import charts
from labkit.sphinx_vega import chart_html

SECTION = "preservation"


def render(results: Mapping[str, Any]) -> str:
    """Return the figure of the margins."""
    return chart_html(charts.as_stored(charts.margins(results["preservation"])))
