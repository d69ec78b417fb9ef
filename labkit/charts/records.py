"""What each difference between records changes: a matrix, with a table of the same rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import altair as alt
import pandas as pd

from labkit.charts.style import CELL_TEXT, Section, chart_of, finish, layered, rows_of, sentence_of

# From what matters most to what matters least; near to the colours of the other matrices.
EFFECTS = {
    "artefact": "#e8834a",
    "undetermined": "#f0b93a",
    "not recorded": "#d9c3b0",
    "question": "#b7a3d6",
    "arithmetic": "#7fb3d9",
    "place": "#b4b9be",
}
_CELL_HEIGHT_PX, _LABELS_WIDTH_PX, _COLUMN_WIDTH_PX = 30, 220, 150
_GAP = alt.Scale(paddingInner=0.06, paddingOuter=0)


def record_differences(section: Section) -> alt.LayerChart:
    """Draw, for each field in which a run's record differs from the plain one's, what changes.

    Raises:
        ResultsError: If the section has no rows.
    """
    rows = rows_of(section)
    base = chart_of([_cell(row) for row in rows]).encode(
        x=alt.X(
            "run:N", sort=None, title=None, scale=_GAP, axis=alt.Axis(orient="top", labelAngle=0)
        ),
        y=alt.Y(
            "field:N",
            sort=_by_gravity(rows),
            title=None,
            scale=_GAP,
            axis=alt.Axis(labelLimit=_LABELS_WIDTH_PX),
        ),
        tooltip=["run:N", "field:N", "plain:N", "other:N", "effect:N", "reason:N"],
    )
    present = [effect for effect in EFFECTS if any(row["effect"] == effect for row in rows)]
    colour = alt.Color(
        "effect:N",
        scale=alt.Scale(domain=present, range=[EFFECTS[effect] for effect in present]),
        legend=alt.Legend(orient="bottom", title="a difference changes the", columns=3),
    )
    cells = base.mark_rect(cornerRadius=3).encode(color=colour)
    words = base.mark_text(color=CELL_TEXT, fontSize=11).encode(text="effect:N")
    height = _CELL_HEIGHT_PX * len({row["field"] for row in rows})
    runs = list(dict.fromkeys(row["run"] for row in rows))
    return finish(
        layered(cells, words, height=height),
        min_width=_LABELS_WIDTH_PX + _COLUMN_WIDTH_PX * len(runs),
        description=_description(rows, runs),
    )


def _cell(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("run", "field", "plain", "other", "effect", "reason")}


def _by_gravity(rows: list[dict[str, Any]]) -> list[str]:
    """Return the fields, those first in which some difference is gravest."""
    order = list(EFFECTS)
    worst: dict[str, int] = {}
    for row in rows:
        place = order.index(row["effect"])
        worst[row["field"]] = min(worst.get(row["field"], place), place)
    return sorted(worst, key=lambda field: (worst[field], field))


def _description(rows: list[dict[str, Any]], runs: list[str]) -> str:
    parts = []
    for run in runs:
        counts = Counter(row["effect"] for row in rows if row["run"] == run)
        said = [f"{counts[effect]} the {effect}" for effect in EFFECTS if counts[effect]]
        parts.append(f"of {run}, {sentence_of(said)}")
    return (
        "Matrix of the fields in which the records of two runs differ from the plain one's, with "
        f"what each difference changes: {'; '.join(parts)}."
    )


def record_table(section: Section) -> pd.DataFrame:
    """Return one row a difference: both values, what it changes, and how that is known."""
    rows = [
        {
            "run": row["run"],
            "field": row["field"],
            "plain run": _cut(row["plain"]),
            "this run": _cut(row["other"]),
            "changes the": row["effect"],
            "because": row["reason"],
        }
        for row in rows_of(section)
    ]
    return pd.DataFrame(rows, dtype=object).set_index("run").rename_axis(index=None, columns="run")


def audit_table(section: Section, key: str = "preflight") -> pd.DataFrame:
    """Return one row a check (`preflight`) or gate (`gates`): what it asks and what was found."""
    rows = [
        {
            "check": row["name"].replace("_", " "),
            "stage": row["stage"],
            "asks": row["asks"],
            "answer": row["answer"],
            "found": row["found"],
        }
        for row in rows_of(section, key)
    ]
    table = pd.DataFrame(rows, dtype=object).set_index("check")
    return table.rename_axis(index=None, columns="check")


def _cut(text: str, *, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
