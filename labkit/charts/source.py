"""The source chapter's figures beside ours, never mixed with them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from labkit.charts.numbers import numbers_of
from labkit.charts.style import Section, significant
from labkit.errors import ResultsError
from labkit.files import load_json_strict

NOT_MEASURED = "not measured here"
NO_DIVERGENCE = "no divergence"
# Such a number is missing where no run diverged; the count of runs bears the same beginning.
_AT_DIVERGENCE = re.compile(r"(.+[._])(?:max_margin_at_divergence|mean_first_divergence_share)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFigure:
    """One figure of the source chapter.

    Attributes:
        key: Its name, which begins with its section.
        what: What it is, in words.
        value: The figure.
        unit: Its unit, or an empty string for a count.
        ours: The key of our number for the same thing (see `numbers_of`), where there is one.
    """

    key: str
    what: str
    value: float | int | str
    unit: str = ""
    ours: str | None = None


def load_reference(path: str | os.PathLike[str]) -> tuple[SourceFigure, ...]:
    """Read the figures of a reference file.

    Raises:
        ResultsError: If the file cannot be read, or an entry is malformed.
    """
    remedy = "Restore it from the repository."
    stored = load_json_strict(Path(path), what="a reference file", remedy=remedy)
    try:
        return tuple(SourceFigure(**figure) for figure in stored["figures"])
    except (KeyError, TypeError) as error:
        raise ResultsError(
            'a reference file must hold {"figures": [{key, what, value, …}]}; '
            f"got {path!s}: {error}. {remedy}"
        ) from error


def side_by_side(
    section_name: str, section: Section, reference: tuple[SourceFigure, ...]
) -> pd.DataFrame:
    """Put the source's figures of one section beside ours for the same thing.

    Args:
        section_name: Which section, as in results.json.
        section: That section of ours.
        reference: The figures of `load_reference`.
    """
    ours = numbers_of(section_name, section)
    figures = [figure for figure in reference if figure.key.startswith(f"{section_name}.")]
    rows = [
        {
            "what": figure.what,
            "source chapter": _shown(figure.value, unit=figure.unit),
            "this run": _ours(ours, figure),
        }
        for figure in figures
    ]
    table = pd.DataFrame(rows, columns=["what", "source chapter", "this run"]).set_index("what")
    return table.rename_axis(index=None, columns="what")


def _ours(numbers: Mapping[str, Any], figure: SourceFigure) -> str:
    if figure.ours is None:
        return NOT_MEASURED
    if numbers.get(figure.ours, "none") == "none":
        place = _AT_DIVERGENCE.fullmatch(figure.ours)
        ran = place and numbers.get(f"{place[1]}runs", 0)
        return NO_DIVERGENCE if ran else NOT_MEASURED
    return _shown(numbers[figure.ours], unit=figure.unit)


def _shown(value: float | int | str, *, unit: str) -> str:
    if isinstance(value, str):
        return value
    if unit == "%":
        return f"{significant(100 * value, digits=3):g} %"
    text = f"{value:,}" if isinstance(value, int) else f"{significant(value, digits=3):g}"
    return f"{text} {unit}".strip()
