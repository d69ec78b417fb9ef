"""What a bound on the experts of a mixture does at each factor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit import charts
from labkit.figures._benchmark import stored_benchmark, table_html

ORIGINS = ("verdicts",)


def render(results: Mapping[str, Any]) -> str:
    """Return the table; it is the same for every run."""
    return table_html(charts.experts_table(stored_benchmark()))
