"""How far from the function, at two precisions: the same weights on llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit import charts
from labkit.figures._stored import LLAMACPP, stored_section
from labkit.sphinx_vega import chart_html

ORIGINS = ("stacks",)


def render(results: Mapping[str, Any]) -> str:
    """Return the convergence chart; it is the same for every run."""
    return chart_html(charts.as_stored(charts.convergence(stored_section(LLAMACPP))))
