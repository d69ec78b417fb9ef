"""From text to score as figures: extractors on one set of outputs, caps, and paired outcomes."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from labkit.charts.style import (
    CELL_TEXT,
    Section,
    chart_of,
    finish,
    layered,
    rows_of,
    sentence_of,
)

_BAR, _HELD_OUT = "#2f7fb8", "#d55e00"
_STAYED, _GAINED, _LOST = "#b4b9be", "#7cc7a8", "#e8834a"
_BAR_HEIGHT_PX, _CELL_HEIGHT_PX = 34, 64
_CELLS = (
    ("right", "right", "right_right", _STAYED),
    ("right", "wrong", "right_wrong", _LOST),
    ("wrong", "right", "wrong_right", _GAINED),
    ("wrong", "wrong", "wrong_wrong", _STAYED),
)


def extractor_spread(section: Section) -> alt.LayerChart:
    """Draw the score that each extractor gives the same outputs.

    Raises:
        ResultsError: If the section has no rows.
    """
    rows = sorted(rows_of(section), key=lambda row: -row["accuracy"])
    for row in rows:
        row["said"] = f"{row['right']} of {row['items']}"
    base = chart_of(rows).encode(
        y=alt.Y("extractor:N", sort=None, title=None),
        x=alt.X(
            "accuracy:Q",
            title="share of the same outputs called right",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%", tickCount=5),
        ),
        tooltip=["extractor:N", "rule:N", "right:Q", "missing:Q", "not_judged:Q", "several:Q"],
    )
    bars = base.mark_bar(color=_BAR, cornerRadius=2)
    words = base.mark_text(align="left", dx=6, color=_BAR).encode(text="said:N")
    said = [f"{row['extractor']} calls {row['said']} right" for row in rows]
    return finish(
        layered(bars, words, height=_BAR_HEIGHT_PX * len(rows)),
        description=f"Bar chart of one set of outputs under {len(rows)} extractors: "
        f"{sentence_of(said)}.",
    )


def cap_knee(section: Section) -> alt.LayerChart:
    """Draw accuracy and the share at the cap against the cap, on both halves of the items.

    Raises:
        ResultsError: If the section has no sweep.
    """
    rows = rows_of(section, "sweep")
    caps = sorted({row["cap"] for row in rows})
    base = chart_of(rows).encode(
        x=alt.X(
            "cap:Q",
            title="cap (new tokens)",
            scale=alt.Scale(type="log", base=2, domain=[caps[0], caps[-1]]),
            axis=alt.Axis(values=caps),
        ),
        color=alt.Color(
            "half:N",
            scale=alt.Scale(domain=["calibration", "held out"], range=[_BAR, _HELD_OUT]),
            legend=alt.Legend(orient="bottom", title=None),
        ),
        tooltip=["half:N", "cap:Q", "accuracy:Q", "share_at_cap:Q", "mean_tokens:Q"],
    )
    axis = alt.Y(
        "accuracy:Q",
        title="share of the items",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%"),
    )
    score = base.mark_line(point=True, strokeWidth=2).encode(y=axis)
    capped = base.mark_line(strokeDash=[5, 4], strokeWidth=2).encode(
        y=alt.Y("share_at_cap:Q", title="share of the items")
    )
    at_knee = [row for row in rows if row["knee"] and row["half"] == "calibration"]
    layers = [score, capped]
    if at_knee:
        rule = chart_of(at_knee).mark_rule(color=_BAR, strokeDash=[2, 3]).encode(x="cap:Q")
        layers.append(rule)
    return finish(layered(*layers, height=320), description=_knee_description(rows, at_knee))


def _knee_description(rows: list[dict[str, Any]], at_knee: list[dict[str, Any]]) -> str:
    last = {row["half"]: row for row in rows}
    ends = [
        f"{half}: {row['accuracy']:.1%} right and {row['share_at_cap']:.1%} at the cap of "
        f"{row['cap']}"
        for half, row in last.items()
    ]
    found = f"The knee is at {at_knee[0]['cap']}." if at_knee else "No cap is a knee."
    return (
        "Line chart against the cap, logarithmic: solid, the share of items called right; dashed, "
        f"the share of outputs that reached the cap. {sentence_of(ends)}. {found}"
    )


def transition_matrix(section: Section) -> alt.LayerChart:
    """Draw the four cells of every comparison, a row of four a variant.

    Raises:
        ResultsError: If the section has no comparison.
    """
    impacts = rows_of(section, "impacts")
    cells = [
        {
            "variant": impact["label"],
            "cell": f"{before} → {after}",
            "pairs": impact["transitions"][key],
            "colour": colour if impact["transitions"][key] else _STAYED,
        }
        for impact in impacts
        for before, after, key, colour in _CELLS
    ]
    gap = alt.Scale(paddingInner=0.06, paddingOuter=0)
    base = chart_of(cells).encode(
        x=alt.X(
            "cell:N",
            sort=None,
            title="reference → changed path",
            scale=gap,
            axis=alt.Axis(orient="top", labelAngle=0),
        ),
        y=alt.Y("variant:N", sort=None, title=None, scale=gap, axis=alt.Axis(labelLimit=180)),
        tooltip=["variant:N", "cell:N", "pairs:Q"],
    )
    rects = base.mark_rect(cornerRadius=3).encode(color=alt.Color("colour:N", scale=None))
    words = base.mark_text(color=CELL_TEXT, fontSize=15).encode(text="pairs:Q")
    said = [
        f"{impact['label']}: {impact['transitions']['right_wrong']} lost and "
        f"{impact['transitions']['wrong_right']} gained of {impact['transitions']['items']}"
        for impact in impacts
    ]
    return finish(
        layered(rects, words, height=_CELL_HEIGHT_PX * len(impacts)),
        description=f"Matrix of paired outcomes, a variant a row. {sentence_of(said)}.",
    )


def scores_table(section: Section) -> pd.DataFrame:
    """Return one row an extractor: its rule, its score, and what it could not read."""
    rows = [
        {
            "extractor": f"{row['extractor']} {row['version']}",
            "rule": row["rule"],
            "right": f"{row['right']} of {row['items']}",
            "accuracy": f"{row['accuracy']:.1%}",
            "missing": row["missing"],
            "not judged": row["not_judged"],
            "several candidates": row["several"],
        }
        for row in rows_of(section)
    ]
    return pd.DataFrame(rows).set_index("extractor").rename_axis(index=None, columns="extractor")


def lengths_table(section: Section) -> pd.DataFrame:
    """Return one row a variant: the cap, the lengths and why outputs ended."""
    rows = [
        {
            "variant": row["label"],
            "cap": row["cap_tokens"] or "not reached",
            **row["lengths"],
            "at the cap": f"{row['at_cap']} of {row['outputs']}",
            "ended by": ", ".join(f"{k} {v}" for k, v in row["stop_reasons"].items()),
            "mean reasoning": _counted(row["reasoning_tokens"]),
            "mean answer": _counted(row["answer_tokens"]),
        }
        for row in rows_of(section, "lengths")
    ]
    return pd.DataFrame(rows).set_index("variant").rename_axis(index=None, columns="variant")


def sweep_table(section: Section) -> pd.DataFrame:
    """Return one row a cap and half of the items."""
    rows = [
        {
            "cap": row["cap"],
            "half": row["half"],
            "right": f"{row['accuracy']:.1%}",
            "at the cap": f"{row['share_at_cap']:.1%}",
            "tokens used (mean)": row["mean_tokens"],
            "knee": "knee" if row["knee"] else "",
        }
        for row in rows_of(section, "sweep")
    ]
    return pd.DataFrame(rows).set_index("cap").rename_axis(index=None, columns="cap")


def impact_table(section: Section) -> pd.DataFrame:
    """Return one row a variant: the text apart from the task, with intervals and verdicts."""
    rows = []
    for row in rows_of(section, "impacts"):
        cells, verdicts = row["transitions"], {v["contract"]: v["answer"] for v in row["verdicts"]}
        rows.append(
            {
                "variant": row["label"],
                "outputs that differ": f"{row['divergence']['different']} of {cells['items']}",
                "lost": cells["right_wrong"],
                "gained": cells["wrong_right"],
                "net, points": f"{row['net_points']:+.2f}",
                "exact interval": _ends(row["exact"]),
                "over clusters": _ends(row["clustered"]),
                "McNemar p": _counted(row["p_value"]),
                **verdicts,
                "not evaluated": "; ".join(row["not_evaluated"]) or "–",
            }
        )
    return pd.DataFrame(rows).set_index("variant").rename_axis(index=None, columns="variant")


def verdicts_table(section: Section) -> pd.DataFrame:
    """Return one row a contract and variant: the verdict in words, and what it left out."""
    rows = [
        {
            "variant": row["label"],
            "contract": verdict["contract"],
            "verdict": verdict["answer"],
            "in words": verdict["sentence"],
            "not evaluated": "; ".join(verdict["not_evaluated"]) or "–",
        }
        for row in rows_of(section, "impacts")
        for verdict in row["verdicts"]
    ]
    return pd.DataFrame(rows).set_index("variant").rename_axis(index=None, columns="variant")


def changed_items_table(section: Section) -> pd.DataFrame:
    """Return every item whose outcome changed, with what was read on either side."""
    rows = [
        {"variant": row["label"], **item}
        for row in rows_of(section, "impacts")
        for item in row["changed_items"]
    ]
    columns = ["variant", "item", "before", "after", "change"]
    table = pd.DataFrame(rows, columns=columns).set_index("variant")
    return table.rename_axis(index=None, columns="variant")


def disputed_table(section: Section) -> pd.DataFrame:
    """Return the items on which extractors disagree, with what each read."""
    rows = [{**row, "text": _short(row["text"])} for row in section["disputed"]]
    columns = ["item", "reference", "text", *(row["extractor"] for row in section["rows"])]
    table = pd.DataFrame(rows, columns=columns).set_index("item")
    return table.rename_axis(index=None, columns="item")


def _short(text: str, *, most: int = 90) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"…{flat[1 - most :]}"


def _ends(interval: dict[str, Any] | None) -> str:
    return f"{interval['low']:+.2f} to {interval['high']:+.2f}" if interval else "not evaluated"


def _counted(value: float | None) -> str:
    return "not evaluated" if value is None else f"{value:.3g}"
