"""The boundary between runtime and model, run by run, and the options beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
)

NEVER_SHARE = 1.06
"""Where the runs that never diverged begin: right of 1, in a band of their own."""
MEASURES = {"change": "largest logit change", "ratio": "rounding ratio"}
_STEP_OF_PROMPT = 0.012
_ROW_PX = 19
_LABEL_LIMIT_PX, _AXIS_PX = 210, 24
_UP = "measure == 'ratio' ? datum.shown_ratio : datum.shown_change"
_FADED = 0.06
_TOOLTIP_OF_RUN = [
    alt.Tooltip("option:N"),
    alt.Tooltip("kind:N"),
    alt.Tooltip("prompt:N"),
    alt.Tooltip("outcome:N"),
    alt.Tooltip("first_divergence:Q", title="first divergence (step)"),
    alt.Tooltip("margin_at_divergence:Q", title="baseline's margin there"),
    alt.Tooltip("baseline_said:N", title="baseline said"),
    alt.Tooltip("variant_said:N", title="this run said"),
    alt.Tooltip("logit_change:Q", title=MEASURES["change"]),
    alt.Tooltip("ratio:Q", title=MEASURES["ratio"]),
]


def boundary(section: Section) -> alt.VConcatChart:
    """Draw one mark a run: how far it moved against how long the output stayed the same.

    Upwards stands the largest logit change or the rounding ratio, as the reader chooses. Below
    stands one bar an option, which counts the runs inside the frame that a reader may drag over
    the marks. Picking an option, or a kind in the legend, fades all the rest. A value of exactly
    zero has no place on a logarithmic axis; such a run is drawn on the lowest line, and its
    tooltip says zero.

    Raises:
        ResultsError: If the section has no runs.
    """
    runs = rows_of(section, "runs")
    values = [run[key] for run in runs for key in ("logit_change", "ratio") if run.get(key)]
    floor, ticks = _floor_and_ticks(values)
    labels = labels_of(rows_of(section))
    points = _run_points(runs, labels=labels, steps=_steps(section), floor=floor)
    options = list(dict.fromkeys(point["option"] for point in points))
    kind = alt.selection_point(name="kind", fields=["kind"], bind="legend")
    option, brush = _option_choice(options), alt.selection_interval(name="brush", zoom=False)
    chosen = alt.condition(kind & option, alt.value(0.8), alt.value(_FADED))
    chart = alt.vconcat(
        _scatter(points, floor=floor, ticks=ticks).encode(opacity=chosen).add_params(kind, brush),
        _bars(points, options, brush=brush).encode(opacity=chosen).add_params(option),
        spacing=14,
    ).add_params(_measure_choice())
    return finish(
        chart,
        description=_boundary_description(points),
        left_px=min(_LABEL_LIMIT_PX, 7 * max(map(len, options))) + _AXIS_PX,
    )


def _measure_choice() -> alt.Parameter:
    """Let the reader choose what stands upwards."""
    choices = alt.binding_radio(
        options=list(MEASURES), labels=list(MEASURES.values()), name="Upwards: "
    )
    return alt.param(name="measure", value="change", bind=choices)


def _option_choice(options: Sequence[str]) -> alt.Parameter:
    """Let the reader pick an option by its bar, or in a list that the keyboard reaches."""
    listed: Any = alt.binding_select(
        options=[None, *options], labels=["every option", *options], name="Option: "
    )
    by_field: Any = {"option": listed}  # Altair's own annotation knows no binding by field
    return alt.selection_point(
        name="option",
        fields=["option"],
        bind=by_field,
        # A legend's names are clicked as well, and are no options.
        on="click[event.item && event.item.datum && event.item.datum.option]",
        clear="dblclick",
    )


def _scatter(points: list[dict[str, Any]], *, floor: float, ticks: list[float]) -> alt.Chart:
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
        title="Logit change, or rounding ratio",
    )
    chart: alt.Chart = (
        chart_of(points, name="runs")
        .transform_calculate(up=_UP)
        .mark_point(size=65, filled=True, strokeWidth=1.6)
        .encode(
            x=alt.X("share:Q", axis=x_axis, scale=alt.Scale(domain=[-0.01, 1.24])),
            y=alt.Y("up:Q", axis=y_axis, scale=alt.Scale(type="log", domain=[floor, ticks[-1]])),
            color=colour_by("kind", KINDS),
            shape=alt.Shape(
                "outcome:N",
                scale=alt.Scale(domain=["identical", "diverged"], range=["circle", "cross"]),
                legend=alt.Legend(orient="bottom", title=None),
            ),
            tooltip=_TOOLTIP_OF_RUN,
        )
        .properties(width=WIDTH_PX, height=340)
    )
    return chart


def _bars(
    points: list[dict[str, Any]], options: Sequence[str], *, brush: alt.Parameter
) -> alt.Chart:
    chart: alt.Chart = (
        chart_of(points, name="options")
        .transform_calculate(up=_UP)
        .transform_filter(brush)
        .transform_aggregate(runs="count()", groupby=["option", "kind", "outcome"])
        .mark_bar(height=_ROW_PX - 6)
        .encode(
            x=alt.X("runs:Q", title="Runs inside the frame (light: diverged)"),
            y=alt.Y(
                "option:N",
                scale=alt.Scale(domain=list(options)),
                title=None,
                axis=alt.Axis(labelLimit=_LABEL_LIMIT_PX, labelPadding=6),
            ),
            color=colour_by("kind", KINDS),
            fillOpacity=alt.condition("datum.outcome == 'diverged'", alt.value(0.35), alt.value(1)),
            order=alt.Order("outcome:N", sort="descending"),
            tooltip=["option:N", "kind:N", "outcome:N", alt.Tooltip("runs:Q")],
        )
        .properties(width=WIDTH_PX, height=_ROW_PX * len(options))
    )
    return chart


def _steps(section: Section) -> int:
    return int(section.get("baseline", {}).get("steps") or 1)


def _floor_and_ticks(positive: list[float]) -> tuple[float, list[float]]:
    """Return a line for zeros below the least value, and the axis's ticks from there."""
    ticks = powers_of_ten(min(positive, default=1.0), max(positive, default=1.0))
    ticks = [ticks[0] / 10, *ticks]
    return ticks[0], ticks


def _run_points(
    runs: list[dict[str, Any]], *, labels: Mapping[str, str], steps: int, floor: float
) -> list[dict[str, Any]]:
    places = {name: place for place, name in enumerate(dict.fromkeys(r["prompt"] for r in runs))}
    points = []
    for run in runs:
        step = run["first_divergence"]
        never = NEVER_SHARE + _STEP_OF_PROMPT * (places[run["prompt"]] % 13)
        points.append(
            {
                "option": labels.get(run["knob"], run["knob"]),
                "kind": run["kind"],
                "prompt": run["prompt"],
                "outcome": "identical" if run["identical"] else "diverged",
                "share": round(never if step is None else step / steps, 4),
                "shown_change": max(run["logit_change"] or 0, floor),
                "shown_ratio": max(run.get("ratio") or 0, floor),
                "baseline_said": said_in_context(run, "baseline"),
                "variant_said": said_in_context(run, "variant"),
                **{
                    key: run.get(key)
                    for key in ("first_divergence", "margin_at_divergence", "logit_change", "ratio")
                },
            }
        )
    return points


def said_in_context(run: Mapping[str, Any], who: str) -> str | None:
    """Return a run's token at the first difference, between the texts around it if recorded."""
    token: str | None = run.get(f"{who}_token")
    context = run.get("context")
    if token is None or not context:
        return token
    return f"{context['before'][-40:]}⟦{token}⟧{(context[f'{who}_after'] or '')[:40]}"


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
        "the largest logit change at the end of the prompt, or the rounding ratio (logarithmic). "
        f"{'; '.join(parts)}. Below it a bar an option counts its runs."
    )
