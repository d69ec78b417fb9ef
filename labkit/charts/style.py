"""Colours, rounding and the finishing touch that every chart shares.

Axis, legend and text colours are left to whoever shows the chart (the book follows its light and
dark theme), so nothing here paints text except on a cell whose colour is fixed as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import altair as alt

from labkit.errors import ResultsError

Row = Mapping[str, Any]
Section = Mapping[str, Any]
AnyChart = TypeVar("AnyChart", alt.Chart, alt.LayerChart, alt.VConcatChart)

WIDTH_PX = 640
DIGITS = 4
"""Significant digits of a number in a chart: more is noise that no pixel shows."""

# Near to Okabe and Ito's colours, which colour-blind readers tell apart; each has a contrast of at
# least 3 to white and to the book's dark page.
KINDS = {"runtime": "#2f7fb8", "model": "#d55e00", "control": "#1b9e77"}
OUTCOMES = ("refused", "warned", "silent", "not_askable")
OUTCOME_WORDS = {"not_askable": "not askable"}
AS_ASKED, SOMETHING_ELSE, EFFECT_UNKNOWN = "silent, did it", "silent, did not", "silent"
# Silence is told apart by what was done: as asked is fine, something else is the worst.
SHADES = {
    "refused": "#7fb3d9",
    "warned": "#f0b93a",
    AS_ASKED: "#7cc7a8",
    EFFECT_UNKNOWN: "#d9c3b0",
    SOMETHING_ELSE: "#e8834a",
    "not askable": "#b4b9be",
}
DECISIONS = {"accept": "#7cc7a8", "warn": "#f0b93a", "reject": "#e8834a"}
CELL_TEXT = "#15191d"


def significant(value: float, *, digits: int = DIGITS) -> float:
    """Round to a number of significant digits; zero, infinity and NaN stay as they are."""
    rounded = float(f"{value:.{digits - 1}e}")
    # The very largest float may round up to infinity.
    return rounded if math.isfinite(rounded) else value


def rounded_row(row: Row, *, digits: int = DIGITS) -> dict[str, Any]:
    """Copy a flat row with each float rounded, so that equal results give equal charts."""
    return {
        key: significant(value, digits=digits) if isinstance(value, float) else value
        for key, value in row.items()
    }


def rows_of(section: Section | None, key: str = "rows") -> list[dict[str, Any]]:
    """Return the rounded rows of a results section.

    Raises:
        ResultsError: If the section was not run, or does not hold such rows.
    """
    rows = section.get(key) if section else None
    if not rows:
        raise ResultsError(
            f"a chart or table needs a section with at least one of its {key!r}; "
            f"got {sorted(section) if section else section!r}. Run that experiment first."
        )
    return [rounded_row(row) for row in rows]


def by_number(row: Row) -> tuple[bool, int]:
    """Order rows by their number, those without one last."""
    return row["number"] is None, row["number"] or 0


def labels_of(rows: Iterable[Row]) -> dict[str, str]:
    """Map each knob to the words a reader sees."""
    return {row["knob"]: row.get("label") or row["knob"] for row in rows}


def colour_by(
    field: str, colours: Mapping[str, str], *, title: str | None = None, columns: int = 4
) -> alt.Color:
    """Colour by a nominal field, with the legend below so that a phone keeps the plot's width."""
    legend = alt.Legend(orient="bottom", title=title, columns=columns, symbolOpacity=1)
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def powers_of_ten(low: float, high: float) -> list[float]:
    """Return the powers of ten from just below `low` to just above `high`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [float(f"1e{exponent}") for exponent in range(first, max(last, first + 1) + 1)]


def sentence_of(items: Sequence[str]) -> str:
    """Join words as a reader would say them: `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def plain_bytes(value: float) -> str:
    """Say a number of bytes in the largest unit that keeps it above one: `36.9 kB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{significant(value, digits=3):g} {unit}"
        value /= 1000
    return f"{significant(value, digits=4):g} TB"


def chart_of(rows: Sequence[Row], *, name: str | None = None) -> alt.Chart:
    """Begin a chart with its rows inside; a view that takes a selection needs a name.

    Altair would otherwise number the views of the whole process, and the same chart would differ
    from one run to the next.
    """
    data = {"values": [dict(row) for row in rows]}
    return alt.Chart(data) if name is None else alt.Chart(data, name=name)


def layered(*charts: alt.Chart, height: int) -> alt.LayerChart:
    """Lay charts over each other at our width."""
    return alt.LayerChart(layer=list(charts), width=WIDTH_PX, height=height)


def finish(chart: AnyChart, *, description: str, min_width: int = 0, left_px: int = 84) -> AnyChart:
    """Give the chart its text alternative and let the book fit its width to the column.

    Args:
        chart: The chart.
        description: What it shows, in words and numbers.
        min_width: Below so many pixels the book scrolls the chart in its own box instead.
        left_px: What axis and labels take beside the plots of views under each other.
    """
    chart.description = re.sub(r"\s+", " ", description).strip()
    chart.usermeta = {"labkit": {"fit": True, "minWidth": min_width, "leftPx": left_px}}
    return chart
