"""The numbers of a section under stable keys, for prose that quotes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from labkit.charts.style import Section
from labkit.errors import ResultsError
from labkit.results import SECTIONS, row_names

Scalar = str | int | float | bool
GLUED_DIGITS = 6


def numbers_of(section_name: str, section: Section) -> dict[str, Scalar]:
    """Return every scalar of a section by its key.

    `preservation.runtime_identical` is a value of the summary (or of the baseline, as
    `preservation.baseline.median_margin`), `preservation.row.int8_weights.ratio` a value of a row.
    A float has a second key ending in `.text`, three significant digits as a reader sees them;
    a missing value is the word `none`.

    Raises:
        ResultsError: If there is no such section, or two rows have the same name.
    """
    if section_name not in SECTIONS:
        raise ResultsError(f"section_name must be one of {sorted(SECTIONS)}; got {section_name!r}.")
    numbers: dict[str, Scalar] = {}
    for key, value in _scalars(section_name, section):
        if key in numbers:
            raise ResultsError(
                f"each number needs its own key; got key={key!r} twice. Rename one of the rows."
            )
        numbers[key] = value
    return numbers


def glue_numbers(section_name: str, section: Section) -> int:
    """Store every scalar of a section in the notebook, where the book's prose can quote it.

    Returns:
        How many were stored.
    """
    # Only a notebook of the book needs it, and it brings Sphinx along.
    from myst_nb import glue

    numbers = numbers_of(section_name, section)
    for key, value in numbers.items():
        glue(key, value, display=False)
    return len(numbers)


def _scalars(section_name: str, section: Section) -> Iterator[tuple[str, Scalar]]:
    for key, value in section.get("summary", {}).items():
        yield from _keyed(f"{section_name}.{_plain(key)}", value)
    for key, value in section.get("baseline", {}).items():
        yield from _keyed(f"{section_name}.baseline.{_plain(key)}", value)
    row_name = row_names()[section_name]
    for row in section.get("rows", ()):
        name = _plain(str(row[row_name]))
        for key, value in row.items():
            if isinstance(value, Mapping):
                continue  # evidence and parameters: objects, not numbers of the row
            yield from _keyed(f"{section_name}.row.{name}.{_plain(key)}", value)


def _plain(name: str) -> str:
    # A colon would end the key where the prose quotes it.
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)


def _keyed(key: str, value: Any) -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, Mapping):
        for inner, inner_value in value.items():
            yield from _keyed(f"{key}.{_plain(str(inner))}", inner_value)
    elif value is None:
        yield key, "none"
    elif isinstance(value, bool):
        yield key, "yes" if value else "no"
    elif isinstance(value, float):
        yield key, float(f"{value:.{GLUED_DIGITS}g}")
        yield f"{key}.text", _text_of(value)
    elif isinstance(value, int | str):
        yield key, value


def _text_of(value: float) -> str:
    if value and not 1e-4 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    text = f"{value:.3g}"
    return text if "e" not in text else f"{float(text):,.0f}"
