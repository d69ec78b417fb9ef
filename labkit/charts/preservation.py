"""The boundary between runtime and model, run by run."""

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
)
from labkit.errors import ResultsError

NEVER_SHARE = 1.06
"""Where the runs that never diverged begin: right of 1, in a band of their own."""
_STEP_OF_PROMPT = 0.012
_TOOLTIP_OF_RUN = [
    alt.Tooltip("option:N"),
    alt.Tooltip("kind:N"),
    alt.Tooltip("prompt:N"),
    alt.Tooltip("outcome:N"),
    alt.Tooltip("first_divergence:Q", title="first divergence (step)"),
    alt.Tooltip("margin_at_divergence:Q", title="baseline's margin there"),
    alt.Tooltip("baseline_token:N", title="baseline said"),
    alt.Tooltip("variant_token:N", title="this run said"),
    alt.Tooltip("logit_change:Q", title="largest logit change"),
]


def boundary(section: Section) -> alt.Chart:
    """Draw one mark a run: how far the logits moved against how long the output stayed the same.

    A logit change of exactly zero has no place on a logarithmic axis; such a run is drawn on the
    lowest line, and its tooltip says zero.

    Raises:
        ResultsError: If the section has no runs.
    """
    runs, rows = rows_of(section, "runs"), rows_of(section)
    floor, ticks = _floor_and_ticks([run["logit_change"] or 0 for run in runs])
    points = _run_points(runs, labels=labels_of(rows), steps=_steps(section), floor=floor)
    chosen = alt.selection_point(name="kind", fields=["kind"], bind="legend")
    x_axis = alt.Axis(
        values=[0, 0.5, 1, round(NEVER_SHARE + 6 * _STEP_OF_PROMPT, 3)],
        labelExpr="datum.value > 1 ? 'never' : format(datum.value, '.0%')",
        title="Share of the output before the first difference",
        labelOverlap=False,
        grid=False,
    )
    y_axis = alt.Axis(
        values=ticks,
        labelExpr=f"datum.value <= {floor} ? '0' : format(datum.value, '~g')",
        title="Largest logit change at the end of the prompt",
    )
    chart: alt.Chart = (
        chart_of(points, name="runs")
        .mark_point(size=65, filled=True, strokeWidth=1.6)
        .encode(
            x=alt.X("share:Q", axis=x_axis, scale=alt.Scale(domain=[-0.01, 1.24])),
            y=alt.Y(
                "shown_change:Q",
                axis=y_axis,
                scale=alt.Scale(type="log", domain=[floor, ticks[-1]]),
            ),
            color=colour_by("kind", KINDS),
            shape=alt.Shape(
                "outcome:N",
                scale=alt.Scale(domain=["identical", "diverged"], range=["circle", "cross"]),
                legend=alt.Legend(orient="bottom", title=None),
            ),
            opacity=alt.condition(chosen, alt.value(0.8), alt.value(0.06)),
            tooltip=_TOOLTIP_OF_RUN,
        )
        .add_params(chosen)
        .properties(width=WIDTH_PX, height=380)
    )
    return finish(chart, description=_boundary_description(points))


def _steps(section: Section) -> int:
    return int(section.get("baseline", {}).get("steps") or 1)


def _floor_and_ticks(values: list[float]) -> tuple[float, list[float]]:
    positive = [value for value in values if value > 0] or [1.0]
    ticks = powers_of_ten(min(positive), max(positive))
    if len(positive) < len(values):
        ticks = [ticks[0] / 10, *ticks]
    return ticks[0], ticks


def _run_points(
    runs: list[dict[str, Any]], *, labels: Mapping[str, str], steps: int, floor: float
) -> list[dict[str, Any]]:
    prompts = {prompt: place for place, prompt in enumerate(dict.fromkeys(_prompts(runs)))}
    points = []
    for run in runs:
        step = run["first_divergence"]
        never = NEVER_SHARE + _STEP_OF_PROMPT * (prompts[run["prompt"]] % 13)
        points.append(
            {
                "option": labels.get(run["knob"], run["knob"]),
                "kind": run["kind"],
                "prompt": run["prompt"],
                "outcome": "identical" if run["identical"] else "diverged",
                "share": round(never if step is None else step / steps, 4),
                "shown_change": max(run["logit_change"] or 0, floor),
                **{
                    key: run.get(key)
                    for key in (
                        "first_divergence",
                        "margin_at_divergence",
                        "baseline_token",
                        "variant_token",
                        "logit_change",
                    )
                },
            }
        )
    return points


def _prompts(runs: list[dict[str, Any]]) -> list[Any]:
    return [run["prompt"] for run in runs]


def _boundary_description(points: list[dict[str, Any]]) -> str:
    parts = []
    for kind in KINDS:
        of_kind = [point for point in points if point["kind"] == kind]
        if not of_kind:
            continue
        same = sum(point["outcome"] == "identical" for point in of_kind)
        largest = max(point["logit_change"] or 0 for point in of_kind)
        parts.append(
            f"{same} of {len(of_kind)} {kind} runs identical, logits moved by at most {largest:g}"
        )
    return (
        "Scatter chart, one mark a run: share of the output before the first difference against "
        f"the largest logit change at the end of the prompt (logarithmic). {'; '.join(parts)}."
    )


def margins(section: Section) -> alt.VConcatChart:
    """Draw how sure the baseline was at each step, and below it each step where a run diverged.

    Bins are equal on the logarithmic axis. Margins below the axis, exact ties included, are
    counted in the leftmost bin.

    Raises:
        ResultsError: If the section has no runs or its baseline no margins.
    """
    floor = 0.01
    baseline = section.get("baseline") or {}
    values = [margin for prompt in baseline.get("margins") or () for margin in prompt]
    if not values:
        raise ResultsError(
            "a chart of margins needs the baseline's margins; "
            f"got baseline={sorted(baseline)}. Run the preservation experiment first."
        )
    labels = labels_of(rows_of(section))
    ticks = [
        {
            "option": labels.get(run["knob"], run["knob"]),
            "kind": run["kind"],
            "prompt": run["prompt"],
            "step": run["first_divergence"],
            "margin": run["margin_at_divergence"],
            "shown_margin": max(run["margin_at_divergence"] or 0, floor),
        }
        for run in rows_of(section, "runs")
        if run["first_divergence"] is not None
    ]
    top = max(10.0, 10 ** math.ceil(math.log10(max([*values, floor]))))
    chart = alt.vconcat(
        _histogram(_bins(values, low=floor, high=top), domain=[floor, top]),
        _divergence_strip(ticks, domain=[floor, top]),
        spacing=8,
    )
    return finish(chart, description=_margin_description(baseline, ticks))


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


def _margin_axis(domain: list[float], *, labelled: bool) -> alt.X:
    axis = alt.Axis(
        values=powers_of_ten(*domain),
        labelExpr=f"datum.value <= {domain[0]} ? '≤ {domain[0]:g}' : format(datum.value, '~g')",
        labels=labelled,
        ticks=labelled,
        title="Baseline's margin: top logit minus the next" if labelled else None,
    )
    return alt.X("from:Q", scale=alt.Scale(type="log", domain=domain, nice=False), axis=axis)


def _histogram(bins: list[dict[str, Any]], *, domain: list[float]) -> alt.Chart:
    chart: alt.Chart = (
        chart_of(bins, name="baseline")
        .mark_rect(color="#9aa0a6", opacity=0.85)
        .encode(
            x=_margin_axis(domain, labelled=False),
            x2="to:Q",
            y2=alt.datum(0),
            y=alt.Y("share:Q", title="Steps", axis=alt.Axis(format=".0%", minExtent=52)),
            tooltip=[
                alt.Tooltip("from:Q", title="margin from", format=".3~g"),
                alt.Tooltip("to:Q", title="to", format=".3~g"),
                alt.Tooltip("steps:Q"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
        .properties(width=WIDTH_PX, height=200)
    )
    return chart


def _divergence_strip(ticks: list[dict[str, Any]], *, domain: list[float]) -> alt.Chart:
    x = _margin_axis(domain, labelled=True)
    x.shorthand = "shown_margin:Q"
    chart: alt.Chart = (
        chart_of(ticks, name="divergences")
        .mark_tick(thickness=2, opacity=0.85)
        .encode(
            x=x,
            y=alt.Y(
                "kind:N",
                title="Diverged",
                scale=alt.Scale(domain=list(KINDS)),
                axis=alt.Axis(minExtent=52, labelLimit=52),
            ),
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(domain=list(KINDS), range=list(KINDS.values())),
                legend=None,
            ),
            tooltip=["option:N", "kind:N", "prompt:N", "step:Q", "margin:Q"],
        )
        .properties(width=WIDTH_PX, height=78)
    )
    return chart


def _margin_description(baseline: Mapping[str, Any], ticks: list[dict[str, Any]]) -> str:
    counts = [f"{sum(tick['kind'] == kind for tick in ticks)} by {kind} changes" for kind in KINDS]
    return (
        "Histogram of the baseline's margin, the top logit minus the next, over every generated "
        f"step (logarithmic axis): median {baseline['median_margin']:.3g}, under 0.1 at "
        f"{baseline['share_under_0_1']:.1%} of steps and under 0.5 at "
        f"{baseline['share_under_0_5']:.1%}. Below it the {len(ticks)} steps where a run first "
        f"differed: {sentence_of(counts)}."
    )
