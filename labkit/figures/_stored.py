"""Runs kept in `data` beside the chapter's own, as the figures that show them read them."""

from __future__ import annotations

from typing import Any

from labkit.files import data_file
from labkit.results import read_results

GEMMA = "gemma3-270m/results.json"


def stored_section(folder: str, name: str) -> dict[str, Any]:
    """Return the preservation section of the run `name` in a folder of `data`."""
    section: dict[str, Any] = read_results(data_file(folder, name))["preservation"]
    return section
