"""The verdict benchmark as a matrix: where each criterion errs, by the size of what it judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from labkit.charts.style import CELL_TEXT, Section, chart_of, finish, layered, rows_of, sentence_of

SIZES = ("only reorders", "under 1", "1 to 10", "10 to 100", "100 to 1k", "over 1k")
"""Columns: what keeps the function, then the decades of what does not, in the baseline's
roundings at the precision in question."""

_CELL_HEIGHT_PX = 34
_ALL_RIGHT, _HALF_WRONG, _ALL_WRONG = "#7cc7a8", "#f0b93a", "#e8834a"


def verdict_matrix(found: Section) -> alt.LayerChart:
    """Draw how often each criterion was wrong, by the size of the effect it had to see.

    The first column holds false alarms, the others misses. An effect under one is smaller, at
    that precision, than what the baseline itself is off by. What float32 cannot see either is
    left out.

    Raises:
        ResultsError: If the benchmark has no rows.
    """
    rows = [row for row in rows_of(found) if not row["small"]]
    names = list(rows[0]["answers"])
    cells = [cell for name in names for cell in _cells_of(rows, name)]
    gap = alt.Scale(paddingInner=0.06, paddingOuter=0)
    base = chart_of(cells).encode(
        x=alt.X(
            "size:N",
            sort=list(SIZES),
            title="effect, in the baseline's own roundings",
            scale=gap,
            axis=alt.Axis(orient="top", labelAngle=0, labelLimit=110),
        ),
        y=alt.Y("criterion:N", sort=names, title=None, scale=gap, axis=alt.Axis(labelLimit=200)),
        tooltip=["criterion:N", "size:N", "wrong:Q", "undetermined:Q", "decisions:Q", "worst:N"],
    )
    scale = alt.Scale(domain=[0, 0.5, 1], range=[_ALL_RIGHT, _HALF_WRONG, _ALL_WRONG])
    rects = base.mark_rect(cornerRadius=3).encode(
        color=alt.Color("share_wrong:Q", scale=scale, legend=None)
    )
    words = base.mark_text(color=CELL_TEXT, fontSize=11).encode(text="text:N")
    chart = layered(rects, words, height=_CELL_HEIGHT_PX * len(names))
    return finish(chart, description=_description(cells, rows), min_width=560)


def size_of(row: Mapping[str, Any]) -> str:
    """Return the column of a row; an effect that float64 cannot show counts as large."""
    if row["truth"] == "preserves":
        return SIZES[0]
    effect = row["effect_here"]
    bounds = (1, 10, 100, 1000)
    return SIZES[1 + sum(effect is None or effect >= bound for bound in bounds)]


def _cells_of(rows: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    cells = []
    for size in SIZES:
        inside = [row for row in rows if size_of(row) == size]
        if not inside:
            continue
        answers = [(row, row["answers"][name]) for row in inside]
        left_open = sum(answer == "undetermined" for _, answer in answers)
        wrong = [r for r, answer in answers if answer not in ("undetermined", r["should_be"])]
        said = f"{len(wrong)} of {len(inside)}" if wrong else "0"
        cells.append(
            {
                "criterion": name,
                "size": size,
                "wrong": len(wrong),
                "undetermined": left_open,
                "decisions": len(inside),
                "share_wrong": round(len(wrong) / len(inside), 4),
                "text": said + (f", {left_open} open" if left_open else ""),
                "worst": _worst(wrong),
            }
        )
    return cells


def _worst(wrong: Sequence[dict[str, Any]]) -> str:
    if not wrong:
        return "none"
    row = max(wrong, key=lambda one: one["effect_here"] or 0)
    return f"{row['case']} ({row['subject']}, {row['precision']})"


def _description(cells: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> str:
    said = []
    for name in dict.fromkeys(cell["criterion"] for cell in cells):
        mine = [cell for cell in cells if cell["criterion"] == name]
        alarms = sum(cell["wrong"] for cell in mine if cell["size"] == SIZES[0])
        missed = sum(cell["wrong"] for cell in mine) - alarms
        left_open = sum(cell["undetermined"] for cell in mine)
        said.append(f"{name}: {alarms} false alarms, {missed} missed, {left_open} undetermined")
    subjects = len({row["subject"] for row in rows})
    return (
        f"Matrix of criteria and effect sizes over {len(rows)} decisions on {subjects} "
        f"architectures; each cell says how many decisions were wrong. {sentence_of(said)}."
    )
