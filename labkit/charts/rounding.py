"""Is a difference rounding? The two measurements behind a verdict, drawn."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import altair as alt

from labkit.charts.style import (
    KINDS,
    Section,
    chart_of,
    colour_by,
    finish,
    labels_of,
    layered,
    powers_of_ten,
    rows_of,
    significant,
)

_LABEL_GAP_SHARE = 0.042  # of the plot's height: a line of text
_LABEL_CHARACTERS = 24  # of a line, beyond which a label goes on below
_TOGETHER_FACTOR = 1.1  # nearer than this, two line ends are one to the eye


def convergence(section: Section) -> alt.LayerChart:
    """Draw each option's distance from the reference against the arithmetic's unit roundoff.

    What only reorders arithmetic falls with the roundoff, along the dashed guides of slope one;
    what changes the function stays on a plateau. An option that lies exactly on the reference at
    some precision has no place on the logarithmic axis there and is left out at that precision.

    Raises:
        ResultsError: If the section has no lanes.
    """
    points = convergence_points(section)
    distances = [point["distance"] for point in points]
    roundoffs = sorted({point["unit_roundoff"] for point in points})
    x_domain = [roundoffs[0] / 2**7, roundoffs[-1] * 2]
    labels = convergence_labels(points)
    ticks = powers_of_ten(
        min([*distances, *(label["distance"] for label in labels)]), max(distances)
    )
    y_domain = [ticks[0], ticks[-1]]
    base: dict[str, Any] = {
        "x": alt.X(
            "unit_roundoff:Q",
            title="Unit roundoff of the arithmetic (smaller is finer)",
            scale=alt.Scale(type="log", base=2, domain=x_domain, nice=False),
            axis=alt.Axis(values=roundoffs, labelExpr=_precision_names(points), grid=False),
        ),
        "y": alt.Y(
            "distance:Q",
            title="Distance from the reference (logits)",
            scale=alt.Scale(type="log", domain=y_domain, nice=False),
            axis=alt.Axis(values=ticks, format="~g", labelOverlap=True),
        ),
    }
    chart = layered(
        _guides(points, x_domain=[roundoffs[0], x_domain[1]], y_domain=y_domain).encode(**base),
        _lines(points, base=base),
        _labels(labels).encode(**base),
        height=420,
    )
    return finish(chart, description=_convergence_description(points))


def convergence_points(section: Section) -> list[dict[str, Any]]:
    """Return one point per option and precision, by option and rising roundoff."""
    labels = labels_of(section.get("rows") or ())
    points = [
        {
            "option": labels.get(lane["knob"], lane["knob"]),
            "kind": lane["kind"],
            "precision": lane["precision"],
            "unit_roundoff": lane["unit_roundoff"],
            "distance": lane["distance"],
            "ratio": lane["ratio"],
        }
        for lane in rows_of(section, "lanes")
        if lane["distance"]
    ]
    return sorted(points, key=lambda point: (point["option"], point["unit_roundoff"]))


def convergence_labels(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Place a label left of each line's finest end, none on another.

    Lines that end together (the options that only reorder arithmetic do) share one label.
    """
    ends: dict[str, dict[str, Any]] = {}
    for point in points:
        ends.setdefault(point["option"], point)
    groups: list[list[dict[str, Any]]] = []
    for end in sorted(ends.values(), key=lambda point: (-point["distance"], point["option"])):
        if groups and groups[-1][-1]["distance"] / end["distance"] < _TOGETHER_FACTOR:
            groups[-1].append(end)
        else:
            groups.append([end])
    distances = [point["distance"] for point in points]
    gap = _LABEL_GAP_SHARE * max(math.log10(max(distances) / min(distances)), 1)
    labels, ceiling, lines_above = [], math.inf, 1
    for group in groups:
        text = "\n".join(
            textwrap.wrap(_group_text(group), _LABEL_CHARACTERS, break_long_words=False)
        )
        lines = text.count("\n") + 1
        middle = math.log10(group[0]["distance"] * group[-1]["distance"]) / 2
        ceiling = min(middle, ceiling - gap * (lines_above + lines) / 2)
        lines_above = lines
        labels.append(
            {
                "unit_roundoff": min(end["unit_roundoff"] for end in group) / 1.5,
                "distance": significant(10**ceiling),
                "kind": group[0]["kind"],
                "text": text,
            }
        )
    return labels


def _group_text(group: list[dict[str, Any]]) -> str:
    if len(group) == 1:
        return str(group[0]["option"])
    counts = [(kind, sum(end["kind"] == kind for end in group)) for kind in KINDS]
    return f"{', '.join(f'{number} {kind}' for kind, number in counts if number)}"


def _precision_names(points: Sequence[dict[str, Any]]) -> str:
    names = {point["unit_roundoff"]: point["precision"] for point in points}
    chain = "format(datum.value, '.1e')"
    for roundoff, name in names.items():
        chain = f"abs(datum.value / {roundoff!r} - 1) < 0.01 ? '{name}' : {chain}"
    return chain


def _lines(points: list[dict[str, Any]], *, base: dict[str, Any]) -> alt.Chart:
    chosen = alt.selection_point(name="kind", fields=["kind"], bind="legend")
    chart: alt.Chart = (
        chart_of(points, name="options")
        .mark_line(point=alt.OverlayMarkDef(size=55, filled=True), strokeWidth=1.8)
        .encode(
            **base,
            color=colour_by("kind", KINDS),
            detail="option:N",
            opacity=alt.condition(chosen, alt.value(0.9), alt.value(0.08)),
            tooltip=[
                "option:N",
                "kind:N",
                "precision:N",
                "distance:Q",
                alt.Tooltip("ratio:Q", title="rounding ratio"),
            ],
        )
        .add_params(chosen)
    )
    return chart


def _labels(labels: list[dict[str, Any]]) -> alt.Chart:
    several: dict[str, Any] = (
        {"lineBreak": "\n"} if any("\n" in label["text"] for label in labels) else {}
    )
    longest = max((len(line) for label in labels for line in label["text"].split("\n")), default=0)
    chart: alt.Chart = (
        chart_of(labels)
        .mark_text(
            align="right",
            baseline="middle",
            fontSize=11,
            # A name of one long word keeps its end, which tells it from its neighbours.
            limit=150 if longest <= _LABEL_CHARACTERS else 0,
            **several,
        )
        .encode(text="text:N")
    )
    return chart


def _guides(
    points: list[dict[str, Any]], *, x_domain: list[float], y_domain: list[float]
) -> alt.Chart:
    # Lines of slope one, a decade apart, cut to the frame.
    (left, right), (lowest, highest) = x_domain, y_domain
    ends = []
    for start in powers_of_ten(lowest * left / right, highest):
        begin, end = max(left, left * lowest / start), min(right, left * highest / start)
        if begin < end:
            ends += [
                {
                    "guide": f"{start:g}",
                    "unit_roundoff": x,
                    "distance": significant(start * x / left),
                }
                for x in (begin, end)
            ]
    chart: alt.Chart = (
        chart_of(ends)
        .mark_line(strokeDash=[3, 4], strokeWidth=1, color="#9aa0a6", opacity=0.6)
        .encode(detail="guide:N")
    )
    return chart


def _convergence_description(points: list[dict[str, Any]]) -> str:
    parts = []
    for kind in KINDS:
        falls = sorted(_falls(points, kind=kind))
        if falls:
            parts.append(
                f"from the coarsest to the finest arithmetic the {kind} options' distance shrinks "
                f"{falls[0]:.3g} to {falls[-1]:.3g} times"
            )
    roundoffs = [point["unit_roundoff"] for point in points]
    return (
        "Line chart, both axes logarithmic: distance of each option's logits from a reference of "
        "higher precision against the unit roundoff of the arithmetic, which itself shrinks "
        f"{max(roundoffs) / min(roundoffs):.3g} times; {'; '.join(parts)}. A slope of one is "
        "rounding; a plateau is another function."
    )


def _falls(points: list[dict[str, Any]], *, kind: str) -> list[float]:
    by_option: dict[str, list[float]] = {}
    for point in points:
        if point["kind"] == kind:
            by_option.setdefault(point["option"], []).append(point["distance"])
    return [distances[-1] / distances[0] for distances in by_option.values() if distances[1:]]


def rounding_ratios(section: Section) -> alt.LayerChart:
    """Draw each option's distance from the function in units of the baseline's own rounding.

    A filled mark with its interval is the run's own precision; an open one is float32. Left of
    or on the line at one, the option is as far from the function as the baseline itself.

    Raises:
        ResultsError: If the section has no rows.
    """
    rows = [row for row in rows_of(section) if row.get("ratio")]
    order = list(KINDS)
    rows.sort(key=lambda row: (order.index(row["kind"]), row["ratio"]))
    for row in rows:
        row["label"] = row.get("label") or row["knob"]
    fields = ("label", "kind", "ratio", "ratio_low", "ratio_high", "ratio_float32", "verdict")
    data = [{field: row.get(field) for field in fields} for row in rows]
    shown = [row[key] for row in rows for key in fields[2:6] if row.get(key)]
    ticks = powers_of_ten(min([*shown, 0.9]), max([*shown, 2.0]) * 1.3)
    y = alt.Y(
        "label:N",
        sort=[row["label"] for row in rows],
        title=None,
        axis=alt.Axis(labelLimit=210, grid=True),
    )
    scale = alt.Scale(type="log", domain=[ticks[0], ticks[-1]], nice=False)
    title = "Rounding ratio (1 is the baseline itself)"
    axis = alt.Axis(
        values=ticks,
        title=title,
        labelExpr="format(datum.value, datum.value < 1000 ? '~g' : '~s')",
    )
    tooltip = [
        alt.Tooltip("label:N", title="option"),
        alt.Tooltip("kind:N"),
        *(alt.Tooltip(f"{field}:Q", title=field.replace("_", " ")) for field in fields[2:6]),
        alt.Tooltip("verdict:N"),
    ]
    base = chart_of(data).encode(y=y, color=colour_by("kind", KINDS))
    interval = base.mark_rule(strokeWidth=2.5).encode(
        x=alt.X("ratio_low:Q", scale=scale, axis=axis), x2="ratio_high:Q"
    )
    point = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=alt.X("ratio:Q", scale=scale), tooltip=tooltip
    )
    fine = (
        base.transform_filter("isValid(datum.ratio_float32)")
        .mark_point(filled=False, size=70, strokeWidth=1.8)
        .encode(x=alt.X("ratio_float32:Q", scale=scale), tooltip=tooltip)
    )
    one = (
        chart_of([{"one": 1}])
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.2, color="#9aa0a6")
        .encode(x=alt.X("one:Q", scale=scale))
    )
    chart = layered(one, interval, point, fine, height=24 * len(rows) + 10)
    return finish(chart, description=_ratio_description(rows))


def _ratio_description(rows: list[dict[str, Any]]) -> str:
    said = [
        f"{row['label']} {row['ratio']:.3g}"
        + (f" (float32 {row['ratio_float32']:.3g})" if row.get("ratio_float32") else "")
        for row in rows
    ]
    return (
        "Interval chart, logarithmic: rounding ratio of each option, where 1 is the baseline's own "
        f"distance from the reference. {'; '.join(said)}."
    )
