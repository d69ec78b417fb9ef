"""What several releases did with the same probes: a matrix, and where the answer changed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import altair as alt
import pandas as pd

from labkit.charts.matrices import shade_of
from labkit.charts.style import (
    CELL_TEXT,
    OUTCOME_WORDS,
    SHADES,
    chart_of,
    finish,
    layered,
    sentence_of,
)
from labkit.errors import ResultsError

Matrix = Mapping[str, Any]
Answer = tuple[str, bool]  # outcome, and whether something else was done instead

SUBSTITUTED = "×"
_ROW_HEIGHT_PX, _COLUMN_WIDTH_PX, _LABELS_WIDTH_PX = 26, 56, 250
_GAP = alt.Scale(paddingInner=0.06, paddingOuter=0)


def release_matrix(matrix: Matrix) -> alt.LayerChart:
    """Draw a row a probe and a column a release, each cell with its outcome in words.

    A cross marks a cell whose release went on and did something else than asked.

    Raises:
        ResultsError: If the matrix has no releases.
    """
    cells = _cells(matrix)
    releases = [column["release"] for column in matrix["releases"]]
    base = chart_of(cells).encode(
        x=alt.X(
            "release:N",
            sort=releases,
            scale=_GAP,
            title="release of transformers",
            axis=alt.Axis(orient="top", labelAngle=0),
        ),
        y=alt.Y(
            "probe:N",
            sort=None,
            scale=_GAP,
            title=None,
            axis=alt.Axis(labelLimit=_LABELS_WIDTH_PX),
        ),
        tooltip=[
            alt.Tooltip("asked:N"),
            alt.Tooltip("release:N"),
            alt.Tooltip("outcome:N"),
            alt.Tooltip("did_it:N", title="did as asked"),
            alt.Tooltip("said:N", title="the stack said"),
        ],
    )
    present = [name for name in SHADES if any(cell["shade"] == name for cell in cells)]
    colour = alt.Color(
        "shade:N",
        scale=alt.Scale(domain=present, range=[SHADES[name] for name in present]),
        legend=alt.Legend(orient="bottom", title=None, columns=3),
    )
    chart = layered(
        base.mark_rect(cornerRadius=3).encode(color=colour),
        base.mark_text(color=CELL_TEXT, fontSize=11).encode(text="text:N"),
        height=_ROW_HEIGHT_PX * len(matrix["probes"]),
    )
    return finish(
        chart,
        min_width=_LABELS_WIDTH_PX + _COLUMN_WIDTH_PX * len(releases),
        description=_description(matrix),
    )


def release_changes(matrix: Matrix) -> pd.DataFrame:
    """Return a line for each answer of the probes whose answer changed, with its releases.

    Raises:
        ResultsError: If the matrix has no releases.
    """
    lines = []
    for probe in _probes_that_changed(matrix):
        for answer, releases in _spans(matrix, probe["probe"]):
            last = _answers(matrix, probe["probe"])[releases[-1]]
            lines.append(
                {
                    "probe": _label(probe),
                    "releases": _span_words(releases),
                    "outcome": OUTCOME_WORDS.get(answer[0], answer[0]),
                    "did as asked": {True: "yes", False: "no", None: "–"}[last["did_it"]],
                    "the stack said": last["why_not_askable"] or last["said"] or "nothing",
                }
            )
    columns = ["probe", "releases", "outcome", "did as asked", "the stack said"]
    return pd.DataFrame(lines, columns=columns).set_index("probe")


def _columns(matrix: Matrix) -> list[Mapping[str, Any]]:
    if not matrix.get("releases"):
        raise ResultsError(
            "A matrix must hold at least one release; got none. "
            "Make it with `labkit fallbacks --matrix`."
        )
    return list(matrix["releases"])


def _cells(matrix: Matrix) -> list[dict[str, Any]]:
    found = {
        (row["probe"], column["release"]): row
        for column in _columns(matrix)
        for row in column["rows"]
    }
    return [
        _cell(probe, release=column["release"], row=found[probe["probe"], column["release"]])
        for probe in matrix["probes"]
        for column in matrix["releases"]
    ]


def _cell(probe: Mapping[str, Any], *, release: str, row: Mapping[str, Any]) -> dict[str, Any]:
    word = "–" if row["outcome"] == "not_askable" else row["outcome"]
    return {
        "probe": _label(probe),
        "asked": probe["asked"],
        "release": release,
        "outcome": row["outcome"],
        "shade": shade_of(row["outcome"], did_it=row["did_it"]),
        "text": f"{word} {SUBSTITUTED}" if row["substituted"] else word,
        "did_it": {True: "yes", False: "no", None: "not measured"}[row["did_it"]],
        "said": row["why_not_askable"] or row["said"] or "nothing",
    }


def _label(probe: Mapping[str, Any]) -> str:
    return f"{probe['number'] or '–'}  {probe['probe'].replace('_', ' ')}"


def _answers(matrix: Matrix, probe_id: str) -> dict[str, Mapping[str, Any]]:
    """Return a probe's row of each release, old releases first."""
    return {
        column["release"]: row
        for column in _columns(matrix)
        for row in column["rows"]
        if row["probe"] == probe_id
    }


def _spans(matrix: Matrix, probe_id: str) -> list[tuple[Answer, list[str]]]:
    """Return a probe's answers in order, each with the releases that follow one another in it."""
    answers = _answers(matrix, probe_id).items()
    same = groupby(answers, key=lambda pair: (pair[1]["outcome"], pair[1]["substituted"]))
    return [(answer, [release for release, _ in pairs]) for answer, pairs in same]


def _probes_that_changed(matrix: Matrix) -> list[Mapping[str, Any]]:
    _columns(matrix)
    return [probe for probe in matrix["probes"] if len(_spans(matrix, probe["probe"])) > 1]


def _span_words(releases: list[str]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"


def _description(matrix: Matrix) -> str:
    releases = [column["release"] for column in matrix["releases"]]
    text = f"Matrix of {len(matrix['probes'])} probes and {len(releases)} releases. "
    changed = _probes_that_changed(matrix)
    if not changed:
        return text + "No answer changed between them."
    return text + "Answers that changed: " + "; ".join(_change(matrix, p) for p in changed) + "."


def _change(matrix: Matrix, probe: Mapping[str, Any]) -> str:
    spans = [
        f"{OUTCOME_WORDS.get(outcome, outcome)}{', did not as asked,' if instead else ''} in "
        f"{_span_words(releases)}"
        for (outcome, instead), releases in _spans(matrix, probe["probe"])
    ]
    return f"{probe['probe'].replace('_', ' ')} was {sentence_of(spans)}"
