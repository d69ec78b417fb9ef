"""How far from the function, at two precisions: Gemma 3, another family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit import charts
from labkit.figures._stored import GEMMA, stored_section
from labkit.sphinx_vega import chart_html

ORIGINS = ("families",)


def render(results: Mapping[str, Any]) -> str:
    """Return the convergence chart; it is the same for every run."""
    return chart_html(charts.as_stored(charts.convergence(stored_section(GEMMA))))
