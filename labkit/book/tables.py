"""Tables of the pages that the book makes itself, as MyST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def two_columns(title: str, rows: Mapping[str, object]) -> str:
    """Return a section with a table of names and values."""
    named = [[key.replace("_", " "), value] for key, value in rows.items()]
    return f"## {title}\n\n" + table(["What", "Value"], named)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table; a missing value is a dash."""
    lines = [[*head], ["---"] * len(head), *([cell(value) for value in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(value: object) -> str:
    """Return a value as a cell shows it."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {cell(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(cell(item) for item in value) or "none"
    return str(value).replace("|", "\\|").replace("\n", " ")
