"""The stored runs of a second stack, as the figures that show them read them."""

from __future__ import annotations

from typing import Any

from labkit.files import data_file
from labkit.results import read_results


def stored_section(name: str) -> dict[str, Any]:
    """Return the preservation section of a run in `data/stacks`."""
    section: dict[str, Any] = read_results(data_file("stacks", name))["preservation"]
    return section
