"""The stored verdict benchmark, as the figures that show it read it."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from labkit.files import data_file


def stored_benchmark() -> dict[str, Any]:
    """Return what `make verdicts` stored."""
    path = data_file("verdicts", "verdicts.json")
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return stored


def table_html(table: pd.DataFrame) -> str:
    """Return a table as the book's pages show it."""
    html: str = table.to_html(border=0, classes="table")
    return f'<div class="pst-scrollable-table-container">{html}</div>'
