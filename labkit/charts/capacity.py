"""Capacity against length, and the source's figures beside ours."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from labkit.charts.style import (
    Section,
    chart_of,
    finish,
    layered,
    powers_of_ten,
    rows_of,
    sentence_of,
    significant,
)
from labkit.errors import ResultsError

NOTHING = "–"
NOT_KNOWN = "not known"
_STRETCHES = {"trained": [1, 0], "extended": [5, 4]}


def capacity_growth(section: Section) -> alt.LayerChart:
    """Draw how many sequences share the pool against the length of each, log by log.

    A line is what surely fits. A band above it, where there is one, reaches to what cannot be
    exceeded. Dashed: beyond the length trained first. A length of which none fits has no place
    on a logarithmic axis, and is named in the description.

    Raises:
        ResultsError: If no checkpoint has a length of which one fits.
    """
    points = rows_of(section, "growth")
    drawn = [point for point in points if point["surely"]]
    if not drawn:
        raise ResultsError(
            "at least one sequence must fit to be drawn; got none at any length. "
            "Give a larger pool."
        )
    names = list(dict.fromkeys(point["checkpoint"] for point in drawn))
    counts = powers_of_ten(1, max(point["at_most"] for point in drawn))
    chosen = alt.selection_point(name="checkpoint", fields=["checkpoint"], bind="legend")
    x = alt.X(
        "tokens:Q",
        title="Tokens reserved for each sequence (1K is 1,024)",
        scale=alt.Scale(type="log", base=2),
        axis=alt.Axis(labelExpr="datum.value < 1024 ? datum.value : datum.value / 1024 + 'K'"),
    )
    scale = alt.Scale(type="log", domain=[counts[0], counts[-1]])
    y = alt.Y(
        "surely:Q",
        title="Sequences that fit together",
        scale=scale,
        axis=alt.Axis(format="~s", values=counts),
    )
    colour = alt.Color(
        "checkpoint:N",
        scale=alt.Scale(domain=names, scheme="tableau10"),
        legend=alt.Legend(orient="bottom", columns=3, title=None, labelLimit=170, symbolOpacity=1),
    )
    band = (
        chart_of([point for point in drawn if point["why"] or _starts_band(point, drawn)])
        .mark_area(opacity=0.25)
        .encode(
            x=x,
            y=y,
            y2="at_most:Q",
            color=colour,
            opacity=alt.condition(chosen, alt.value(0.25), alt.value(0.04)),
        )
    )
    line = (
        chart_of(_stretches(drawn), name="capacity")
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=22, filled=True))
        .encode(
            x=x,
            y=y,
            color=colour,
            opacity=alt.condition(chosen, alt.value(1.0), alt.value(0.12)),
            strokeDash=alt.StrokeDash(
                "stretch:N",
                scale=alt.Scale(domain=list(_STRETCHES), range=list(_STRETCHES.values())),
                legend=alt.Legend(orient="bottom", title="positions"),
            ),
            detail="stretch:N",
            tooltip=[
                alt.Tooltip("checkpoint:N"),
                alt.Tooltip("tokens:Q", format=","),
                alt.Tooltip("surely:Q", title="surely fit", format=","),
                alt.Tooltip("at_most:Q", title="at most", format=","),
                alt.Tooltip("why:N", title="why they differ"),
            ],
        )
        .add_params(chosen)
    )
    chart = layered(band, line, height=360)
    return finish(chart, description=_description(section, points, drawn))


def _starts_band(point: dict[str, Any], drawn: list[dict[str, Any]]) -> bool:
    """Return whether a point is the last before its checkpoint's two bounds part."""
    later = [
        other
        for other in drawn
        if other["checkpoint"] == point["checkpoint"] and other["tokens"] > point["tokens"]
    ]
    return bool(later) and bool(later[0]["why"])


def _stretches(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Name each point's stretch; the last trained point begins the extended one too."""
    rows = []
    for index, point in enumerate(drawn):
        rows.append(point | {"stretch": "extended" if point["extended"] else "trained"})
        after = drawn[index + 1] if index + 1 < len(drawn) else None
        same = after is not None and after["checkpoint"] == point["checkpoint"]
        if after is not None and same and after["extended"] and not point["extended"]:
            rows.append(point | {"stretch": "extended"})
    return rows


def _description(
    section: Section, points: list[dict[str, Any]], drawn: list[dict[str, Any]]
) -> str:
    first = min(point["tokens"] for point in drawn)
    start = {p["checkpoint"]: p["surely"] for p in drawn if p["tokens"] == first}
    most, least = max(start, key=start.__getitem__), min(start, key=start.__getitem__)
    parted = list(dict.fromkeys(p["checkpoint"] for p in points if p["why"]))
    none = list(dict.fromkeys(p["checkpoint"] for p in points if not p["surely"]))
    text = (
        f"Line chart, both axes logarithmic: how many sequences of one length share a cache of "
        f"{significant(section['summary']['pool_gib'], digits=3):g} GiB, for {len(start)} "
        f"checkpoints in 16 bit. At {first} tokens {most} fits {start[most]:,} times and {least} "
        f"{start[least]:,}. Twice the length, half as many, wherever no window ends the growth. "
        "Dashed: beyond the length trained first."
    )
    if parted:
        text += f" A band, because a window's layers are not stated: {sentence_of(parted)}."
    return text + (f" No place for some lengths of {sentence_of(none)}." if none else "")


def capacity_table(section: Section) -> pd.DataFrame:
    """Return the bounds behind the chart: a checkpoint a row, a length a column."""
    points = rows_of(section, "growth")
    lengths = sorted({p["tokens"] for p in points if p["tokens"] & (p["tokens"] - 1) == 0})
    names = list(dict.fromkeys(point["checkpoint"] for point in points))
    cells = {(p["checkpoint"], p["tokens"]): _bounds(p) for p in points}
    table = pd.DataFrame(
        {f"{n:,}": [cells.get((name, n), NOTHING) for name in names] for n in lengths},
        index=names,
        dtype=object,
    )
    return table.rename_axis(index=None, columns="sequences of … tokens")


def printed_table(
    section: Section, *, topics: tuple[str, ...] = (), agreement: str | None = None
) -> pd.DataFrame:
    """Return printed figures beside ours, of some topics or of one kind of agreement.

    Raises:
        ResultsError: If no figure is of that kind.
    """
    rows = [
        {**row, **row["about"]}
        for row in rows_of(section)
        if (not topics or row["about"]["topic"] in topics) and agreement in (None, row["agreement"])
    ]
    if not rows:
        raise ResultsError(
            f"a table must have a figure; got topics={topics}, agreement={agreement!r} with none."
        )
    columns = {
        "figure": [row["what"] for row in rows],
        "place": [row["place"] for row in rows],
        "unit": [row["unit"] or NOTHING for row in rows],
        "printed": [row["printed"] for row in rows],
        "from printed inputs": [row["ours"] for row in rows],
        "label": [row["label"] for row in rows],
        "result": [row["agreement"] for row in rows],
        "why": [row["why"] for row in rows],
    }
    if agreement is None:
        del columns["why"]
    return _indexed(columns, "figure")


def context_table(section: Section) -> pd.DataFrame:
    """Return one row a task and threshold: between which lengths it crosses."""
    rows = rows_of(section, "contexts")
    columns = {
        "task": [row["what"] for row in rows],
        "place": [row["place"] for row in rows],
        "threshold": [f"{row['threshold']:.0%}" for row in rows],
        "range": [row["range"] for row in rows],
        "why": [row["why"] for row in rows],
    }
    return _indexed(columns, "task")


def comparison_table(section: Section) -> pd.DataFrame:
    """Return one row a comparison: the printed label, ours, and what the next rung lacks."""
    rows = rows_of(section, "comparisons")
    columns = {
        "comparison": [row["what"] for row in rows],
        "place": [row["place"] for row in rows],
        "printed label": [row["printed_label"] for row in rows],
        "label by its design": [row["label"] for row in rows],
        "the next rung lacks": ["; ".join(row["missing"]) or NOTHING for row in rows],
        "why": [row["why"] for row in rows],
    }
    return _indexed(columns, "comparison")


def _bounds(point: dict[str, Any]) -> str:
    if point["surely"] is None:
        most = point["at_most"]
        return NOT_KNOWN if most is None else f"{NOT_KNOWN}, at most {most:,}"
    if point["surely"] == point["at_most"]:
        return f"{point['surely']:,}"
    return f"{point['surely']:,} to {point['at_most']:,}"


def _indexed(columns: dict[str, list[str]], first: str) -> pd.DataFrame:
    table = pd.DataFrame(columns, dtype=object).set_index(first)
    return table.rename_axis(index=None, columns=first)
