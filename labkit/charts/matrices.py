"""Two matrices of coloured cells with their words: what a stack did, and what is admitted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import altair as alt

from labkit.charts.style import (
    AS_ASKED,
    CELL_TEXT,
    DECISIONS,
    EFFECT_UNKNOWN,
    OUTCOME_WORDS,
    OUTCOMES,
    SHADES,
    SOMETHING_ELSE,
    Section,
    by_number,
    chart_of,
    finish,
    layered,
    rows_of,
    sentence_of,
)

HERE, SOURCE = "this run", "source chapter"
DECISION_COLUMN = "decision"
_CELL_HEIGHT_PX = 30
_RULE_WIDTH_PX, _LABELS_WIDTH_PX = 40, 200  # twelve columns fit the book's own
_GAP = alt.Scale(paddingInner=0.06, paddingOuter=0)


def fallback_matrix(section: Section) -> alt.LayerChart:
    """Draw what the stack did with each probe, beside what the source chapter saw.

    Each cell says its outcome in words and, unless it was refused, whether it did as asked.

    Raises:
        ResultsError: If the section has no rows.
    """
    cells = []
    rows = rows_of(section)
    for row in sorted(rows, key=by_number):
        label = f"{row['number'] or '–'}  {row['probe'].replace('_', ' ')}"
        cells.append(_probe_cell(row, label=label))
        if row.get("source_outcome"):
            cells.append(
                {
                    "probe": label,
                    "column": SOURCE,
                    "asked": row["asked"],
                    "outcome": row["source_outcome"],
                    "shade": shade_of(row["source_outcome"], did_it=None),
                    "text": _outcome_word(row["source_outcome"]),
                    "said": "as the source chapter reports it",
                }
            )
    chart = _cells(
        cells,
        height=_CELL_HEIGHT_PX * len(rows),
        colours=SHADES,
        colour_field="shade",
        y=alt.Y("probe:N", sort=None, title=None, scale=_GAP, axis=alt.Axis(labelLimit=300)),
        x=alt.X(
            "column:N",
            sort=[HERE, SOURCE],
            scale=_GAP,
            title=None,
            axis=alt.Axis(orient="top", labelAngle=0),
        ),
        tooltip=[
            alt.Tooltip("probe:N"),
            alt.Tooltip("asked:N"),
            alt.Tooltip("column:N", title="where"),
            alt.Tooltip("outcome:N"),
            alt.Tooltip("did_it:N", title="did as asked"),
            alt.Tooltip("said:N", title="the stack said"),
        ],
    )
    return finish(chart, description=_fallback_description(rows))


def _outcome_word(outcome: str) -> str:
    return OUTCOME_WORDS.get(outcome, outcome)


def shade_of(outcome: str, *, did_it: bool | None) -> str:
    """Return the word that an outcome is coloured by."""
    if outcome != "silent":
        return _outcome_word(outcome)
    return {True: AS_ASKED, False: SOMETHING_ELSE, None: EFFECT_UNKNOWN}[did_it]


def _probe_cell(row: Mapping[str, Any], *, label: str) -> dict[str, Any]:
    done = {True: ", did it", False: ", did not"}.get(row["did_it"], "")
    said = row.get("why_not_askable") or row.get("said") or "nothing"
    return {
        "probe": label,
        "column": HERE,
        "asked": row["asked"],
        "outcome": row["outcome"],
        "shade": shade_of(row["outcome"], did_it=row["did_it"]),
        "text": _outcome_word(row["outcome"]) + (done if row["outcome"] != "refused" else ""),
        "did_it": {True: "yes", False: "no"}.get(row["did_it"], "not measured"),
        "said": said if len(said) <= 160 else f"{said[:159]}…",
    }


def _fallback_description(rows: list[dict[str, Any]]) -> str:
    here = Counter(row["outcome"] for row in rows)
    source = Counter(row["source_outcome"] for row in rows if row.get("source_outcome"))
    different = [
        str(row["number"] or row["probe"])
        for row in rows
        if row.get("source_outcome")
        and row["outcome"] not in (row["source_outcome"], "not_askable")
    ]
    text = (
        f"Matrix of {len(rows)} probes. This run: {_counts(here)}. Source chapter: "
        f"{_counts(source)}. "
    )
    if not different:
        return text + "Every probe asked here ended as in the source."
    return text + f"Outcomes differ at probe {sentence_of(different)}."


def _counts(counter: Counter[str]) -> str:
    said = [f"{counter[name]} {_outcome_word(name)}" for name in OUTCOMES if counter[name]]
    return sentence_of(said) if said else "nothing recorded"


def admission_matrix(section: Section) -> alt.LayerChart:
    """Draw which rules spoke on each case and what each asked for, with the decision in front.

    Raises:
        ResultsError: If the section has no rows.
    """
    rows = sorted(rows_of(section), key=by_number)
    cells, rules = [], []
    for row in rows:
        label = f"{row['number']}  {row['title']}"
        messages = "; ".join(reason["message"] for reason in row["reasons"]) or "no rule objects"
        cells.append(_rule_cell(label, DECISION_COLUMN, row["outcome"], messages))
        for rule, (outcome, message) in _by_rule(row["reasons"]).items():
            rules.append(rule)
            cells.append(_rule_cell(label, rule, outcome, message))
    columns = [DECISION_COLUMN, *dict.fromkeys(rules)]
    chart = _cells(
        cells,
        height=_CELL_HEIGHT_PX * len(rows),
        colours=DECISIONS,
        colour_field="outcome",
        y=alt.Y(
            "case:N", sort=None, title=None, scale=_GAP, axis=alt.Axis(labelLimit=_LABELS_WIDTH_PX)
        ),
        x=alt.X(
            "rule:N",
            sort=columns,
            scale=_GAP,
            title=None,
            # Upright, or the last ones would leave the frame on the right.
            axis=alt.Axis(orient="top", labelAngle=-90, labelLimit=180, labelOverlap=False),
        ),
        tooltip=["case:N", "rule:N", "outcome:N", alt.Tooltip("message:N", title="reason")],
    )
    counts = Counter(row["outcome"] for row in rows)
    said = [f"{counts[name]} {name}" for name in DECISIONS if counts[name]]
    return finish(
        chart,
        min_width=_LABELS_WIDTH_PX + _RULE_WIDTH_PX * len(columns),
        description=(
            f"Matrix of {len(rows)} requests and the rules that spoke on them. Decisions: "
            f"{sentence_of(said)}. Rules that spoke: {sentence_of(columns[1:] or ['none'])}."
        ),
    )


def _by_rule(reasons: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return each rule's strictest outcome and all it said: one mark a rule."""
    found: dict[str, tuple[str, str]] = {}
    strictness = list(DECISIONS)
    for reason in reasons:
        outcome, message = reason["outcome"], reason["message"]
        if before := found.get(reason["rule"]):
            outcome = max(before[0], outcome, key=strictness.index)
            message = f"{before[1]}; {message}"
        found[reason["rule"]] = (outcome, message)
    return found


def _rule_cell(case: str, rule: str, outcome: str, message: str) -> dict[str, Any]:
    return {"case": case, "rule": rule, "outcome": outcome, "text": outcome, "message": message}


def _cells(
    cells: list[dict[str, Any]],
    *,
    height: int,
    colours: Mapping[str, str],
    colour_field: str,
    y: alt.Y,
    x: alt.X,
    tooltip: list[Any],
) -> alt.LayerChart:
    present = [name for name in colours if any(cell[colour_field] == name for cell in cells)]
    base = chart_of(cells).encode(x=x, y=y, tooltip=tooltip)
    colour = alt.Color(
        f"{colour_field}:N",
        scale=alt.Scale(domain=present, range=[colours[name] for name in present]),
        legend=alt.Legend(orient="bottom", title=None, columns=3),
    )
    rects = base.mark_rect(cornerRadius=3).encode(color=colour)
    words = base.mark_text(color=CELL_TEXT, fontSize=11).encode(text="text:N")
    return layered(rects, words, height=height)
