"""The preservation table of Gemma 3, another family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit import charts
from labkit.figures._benchmark import table_html
from labkit.figures._stored import GEMMA, stored_section

ORIGINS = ("families",)


def render(results: Mapping[str, Any]) -> str:
    """Return the table; it is the same for every run."""
    return table_html(charts.preservation_table(stored_section(GEMMA)))
