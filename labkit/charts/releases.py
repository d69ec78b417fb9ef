"""What several releases did with the same probes: a matrix, and where the answer changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
_SHORT_NAMES = {"llama-cpp-python": "llama.cpp"}
# Another stack may not have been asked a probe that was written after it answered.
_NOT_PUT = {
    "outcome": "not_askable",
    "did_it": None,
    "substituted": False,
    "said": "",
    "why_not_askable": "not put to this stack yet",
}
_ROW_HEIGHT_PX, _COLUMN_WIDTH_PX, _LABELS_WIDTH_PX = 26, 56, 250
_GAP = alt.Scale(paddingInner=0.06, paddingOuter=0)


def release_matrix(matrix: Matrix) -> alt.LayerChart:
    """Draw a row a probe and a column a release, each cell with its outcome in words.

    Other stacks that were asked the same stand last, by their library's name. A cross marks a cell
    whose stack went on and did something else than asked.

    Raises:
        ResultsError: If the matrix has no releases.
    """
    cells = _cells(matrix)
    releases = [_head(column) for column in _all_columns(matrix)]
    others = " · last: another stack" if matrix.get("others") else ""
    base = chart_of(cells).encode(
        x=alt.X(
            "release:N",
            sort=releases,
            scale=_GAP,
            title=f"release of transformers{others}",
            axis=alt.Axis(orient="top", labelAngle=0, labelExpr="split(datum.label, ' ')"),
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


def stack_answers(matrix: Matrix, decided: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a line for each thing that another stack put in place of what was asked.

    Args:
        matrix: The matrix.
        decided: The rows of `labkit.experiments.answers.answer_stack`.

    Raises:
        ResultsError: If the matrix holds no other stack.
    """
    if not matrix.get("others"):
        raise ResultsError(
            "A matrix must hold another stack; got none. "
            "Ask it with `labkit fallbacks --stack llamacpp`."
        )
    rules = {row["probe"]: row for row in decided}
    column = matrix["others"][-1]
    lines = [
        {
            "question": row["probe"].replace("_", " "),
            "outcome": OUTCOME_WORDS.get(row["outcome"], row["outcome"]),
            "the stack said": row["said"] or "nothing",
            "rule that says so beforehand": _rule_words(rules[row["probe"]]),
        }
        for row in [*column["rows"], *column["own"]]
        if row["substituted"]
    ]
    return pd.DataFrame(lines).set_index("question")


def _rule_words(row: Mapping[str, Any]) -> str:
    return str(row["rule"]) if row["answered"] else "none"


def _columns(matrix: Matrix) -> list[Mapping[str, Any]]:
    if not matrix.get("releases"):
        raise ResultsError(
            "A matrix must hold at least one release; got none. "
            "Make it with `labkit fallbacks --matrix`."
        )
    return list(matrix["releases"])


def _all_columns(matrix: Matrix) -> list[Mapping[str, Any]]:
    return [*_columns(matrix), *matrix.get("others", ())]


def _head(column: Mapping[str, Any]) -> str:
    """Return a column's head: the release, under the name of a library that is another."""
    library = column.get("library")
    return (
        f"{_SHORT_NAMES.get(library, library)} {column['release']}"
        if library
        else column["release"]
    )


def _cells(matrix: Matrix) -> list[dict[str, Any]]:
    found = {
        (row["probe"], _head(column)): row
        for column in _all_columns(matrix)
        for row in column["rows"]
    }
    return [
        _cell(probe, release=head, row=found.get((probe["probe"], head), _NOT_PUT))
        for probe in matrix["probes"]
        for head in map(_head, _all_columns(matrix))
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
    told = "; ".join(_change(matrix, probe) for probe in changed)
    text += f"Answers that changed: {told}." if changed else "No answer changed between them."
    return " ".join([text, *map(_other_words, matrix.get("others", ()))])


def _other_words(column: Mapping[str, Any]) -> str:
    """Count what another stack did with the same probes."""
    outcomes = [row["outcome"] for row in column["rows"]]
    counts = [
        f"{outcomes.count(name)} {OUTCOME_WORDS.get(name, name)}"
        for name in dict.fromkeys(outcomes)
    ]
    instead = sum(row["substituted"] for row in column["rows"])
    return f"{_head(column)}: {sentence_of(counts)}; {instead} did not as asked."


def _change(matrix: Matrix, probe: Mapping[str, Any]) -> str:
    spans = [
        f"{OUTCOME_WORDS.get(outcome, outcome)}{', did not as asked,' if instead else ''} in "
        f"{_span_words(releases)}"
        for (outcome, instead), releases in _spans(matrix, probe["probe"])
    ]
    return f"{probe['probe'].replace('_', ' ')} was {sentence_of(spans)}"
