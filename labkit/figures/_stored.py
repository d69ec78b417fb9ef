"""Runs kept in `data` beside the chapter's own, as the figures that show them read them."""

from __future__ import annotations

from typing import Any

from labkit.files import data_file
from labkit.results import read_results

LLAMACPP = ("stacks", "another_stack")
GEMMA = ("families", "gemma3-270m")


def stored_section(run: tuple[str, str]) -> dict[str, Any]:
    """Return the preservation section of a run: a folder of `data`, and its name in there."""
    section: dict[str, Any] = read_results(data_file(*run))["preservation"]
    return section
