"""How sure the baseline was, with every divergence marked and near-ties recounted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt

from labkit.charts.style import (
    KINDS,
    WIDTH_PX,
    Section,
    chart_of,
    colour_by,
    finish,
    labels_of,
    powers_of_ten,
    rows_of,
    sentence_of,
    significant,
)
from labkit.errors import ResultsError

FLOOR = 0.01
"""Margins below it, exact ties included, stand at the left end of the axis."""
NEAR_TIE = 0.1
"""Where the slider begins, in logits: the source chapter's own threshold."""
_LARGEST_NEAR_TIE, _SLIDER_STEP = 2, 0.01
_LEFT_PX = 52  # the axis labels of both views, so that their plots stand under each other


def margins(section: Section) -> alt.VConcatChart:
    """Draw how sure the baseline was at each step, and below it each step where a run diverged.

    A slider sets how small a margin counts as a near-tie; the steps and the divergences at or
    under it are counted anew. Bins are equal on the logarithmic axis.

    Raises:
        ResultsError: If the section has no runs or its baseline no margins.
    """
    baseline = section.get("baseline") or {}
    values = [margin for prompt in baseline.get("margins") or () for margin in prompt]
    if not values:
        raise ResultsError(
            "a chart of margins needs the baseline's margins; "
            f"got baseline={sorted(baseline)}. Run the preservation experiment first."
        )
    ticks = _divergences(section)
    top = max(10.0, 10 ** math.ceil(math.log10(max([*values, FLOOR]))))
    domain = [FLOOR, top]
    slider = alt.binding_range(
        min=0, max=_LARGEST_NEAR_TIE, step=_SLIDER_STEP, name="Near-tie, in logits: at most "
    )
    option = alt.selection_point(name="option", fields=["option"], clear="dblclick")
    kind = alt.selection_point(name="kind", fields=["kind"], bind="legend")
    chart = alt.vconcat(
        alt.LayerChart(
            layer=[
                _histogram(_bins(values, low=FLOOR, high=top), domain=domain),
                _threshold(domain),
                _step_count(values),
            ],
            width=WIDTH_PX,
            height=200,
        ),
        alt.LayerChart(
            layer=[
                _strip(ticks, domain=domain)
                .encode(opacity=alt.condition(option & kind, alt.value(0.9), alt.value(0.06)))
                .add_params(option, kind),
                _divergence_counts(ticks),
            ],
            width=WIDTH_PX,
            height=126,
        ),
        spacing=8,
    ).add_params(alt.param(name="near_tie", value=NEAR_TIE, bind=slider))
    return finish(chart, description=_margin_description(baseline, ticks))


def _divergences(section: Section) -> list[dict[str, Any]]:
    labels = labels_of(rows_of(section))
    return [
        {
            "option": labels.get(run["knob"], run["knob"]),
            "kind": run["kind"],
            "prompt": run["prompt"],
            "step": run["first_divergence"],
            "margin": run["margin_at_divergence"],
            "shown_margin": max(run["margin_at_divergence"] or 0, FLOOR),
        }
        for run in rows_of(section, "runs")
        if run["first_divergence"] is not None
    ]


def _bins(values: list[float], *, low: float, high: float) -> list[dict[str, Any]]:
    per_decade = 6
    number = round(per_decade * math.log10(high / low))
    counts = [0] * number
    for value in values:
        place = math.floor(per_decade * math.log10(max(value, low) / low))
        counts[min(place, number - 1)] += 1
    edges = [round(low * 10 ** (place / per_decade), 6) for place in range(number + 1)]
    return [
        {
            "from": edges[place],
            "to": edges[place + 1],
            "steps": count,
            "share": round(count / len(values), 5),
        }
        for place, count in enumerate(counts)
        if count
    ]


def _margin_axis(field: str, domain: list[float], *, labelled: bool) -> alt.X:
    axis = alt.Axis(
        values=powers_of_ten(*domain),
        labelExpr=f"datum.value <= {domain[0]} ? '≤ {domain[0]:g}' : format(datum.value, '~g')",
        labels=labelled,
        ticks=labelled,
        title="Baseline's margin: top logit minus the next" if labelled else None,
    )
    return alt.X(f"{field}:Q", scale=alt.Scale(type="log", domain=domain, nice=False), axis=axis)


def _histogram(bins: list[dict[str, Any]], *, domain: list[float]) -> alt.Chart:
    chart: alt.Chart = (
        chart_of(bins, name="baseline")
        .mark_rect(color="#9aa0a6", opacity=0.85)
        .encode(
            x=_margin_axis("from", domain, labelled=False),
            x2="to:Q",
            y2=alt.datum(0),
            y=alt.Y("share:Q", title="Steps", axis=alt.Axis(format=".0%", minExtent=_LEFT_PX)),
            tooltip=[
                alt.Tooltip("from:Q", title="margin from", format=".3~g"),
                alt.Tooltip("to:Q", title="to", format=".3~g"),
                alt.Tooltip("steps:Q"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    return chart


def _threshold(domain: list[float]) -> alt.Chart:
    chart: alt.Chart = (
        chart_of([{"place": 1}])
        .transform_calculate(place=f"max(near_tie, {domain[0]})")
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.5)
        .encode(x=_margin_axis("place", domain, labelled=False))
    )
    return chart


def _step_count(values: list[float]) -> alt.Chart:
    """Say how many of the baseline's steps are near-ties, at the slider's place."""
    chart: alt.Chart = (
        chart_of([{"margin": significant(value)} for value in values])
        .transform_calculate(near="datum.margin <= near_tie ? 1 : 0")
        .transform_aggregate(near="sum(near)", steps="count()")
        .transform_calculate(
            text="datum.near + ' of ' + datum.steps + ' steps are near-ties ('"
            " + format(datum.near / datum.steps, '.1%') + ')'"
        )
        .mark_text(align="left", baseline="top", fontSize=12, fontWeight=600)
        .encode(text="text:N", x=alt.value(4), y=alt.value(2))
    )
    return chart


def _strip(ticks: list[dict[str, Any]], *, domain: list[float]) -> alt.Chart:
    chart: alt.Chart = (
        chart_of(ticks, name="divergences")
        .mark_tick(thickness=2, size=16, yOffset=9)
        .encode(
            x=_margin_axis("shown_margin", domain, labelled=True),
            y=_kind_axis(),
            color=colour_by("kind", KINDS),
            tooltip=["option:N", "kind:N", "prompt:N", "step:Q", "margin:Q"],
        )
    )
    return chart


def _kind_axis() -> alt.Y:
    return alt.Y(
        "kind:N",
        title="Diverged",
        scale=alt.Scale(domain=list(KINDS)),
        axis=alt.Axis(minExtent=_LEFT_PX, labelLimit=_LEFT_PX),
    )


def _divergence_counts(ticks: list[dict[str, Any]]) -> alt.Chart:
    """Say for each kind how many of its divergences were near-ties of the baseline."""
    chart: alt.Chart = (
        chart_of([{"kind": tick["kind"], "margin": tick["margin"]} for tick in ticks])
        .transform_calculate(near="datum.margin <= near_tie ? 1 : 0")
        .transform_aggregate(near="sum(near)", diverged="count()", groupby=["kind"])
        .transform_calculate(text="datum.near + ' of ' + datum.diverged + ' near-ties'")
        .mark_text(align="right", baseline="middle", fontSize=11, dy=-10)
        .encode(text="text:N", y=_kind_axis(), x=alt.value({"expr": "width - 4"}))
    )
    return chart


def _margin_description(baseline: Mapping[str, Any], ticks: list[dict[str, Any]]) -> str:
    counts = [f"{sum(tick['kind'] == kind for tick in ticks)} by {kind} changes" for kind in KINDS]
    return (
        "Histogram of the baseline's margin, the top logit minus the next, over every generated "
        f"step (logarithmic axis): median {baseline['median_margin']:.3g}, at most 0.1 at "
        f"{baseline['share_under_0_1']:.1%} of steps and at most 0.5 at "
        f"{baseline['share_under_0_5']:.1%}. Below it the {len(ticks)} steps where a run first "
        f"differed: {sentence_of(counts)}. A slider moves the margin that counts as a near-tie."
    )
