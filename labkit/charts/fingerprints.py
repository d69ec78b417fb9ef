"""What a checkpoint's configuration costs: cache bytes against context length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import altair as alt

from labkit.charts.style import (
    Section,
    chart_of,
    finish,
    layered,
    plain_bytes,
    powers_of_ten,
    rows_of,
    significant,
)
from labkit.errors import ResultsError

FIRST_TOKENS = 128
UNSTATED_END_TOKENS = 131_072
"""Where a line ends for a checkpoint that states no limit."""
MARKS = ("window", "original length", "last position")


class CacheSpec(Protocol):
    """The one thing the chart asks of a spec."""

    def cache_bytes(
        self, *, tokens: int, batch: int = 1, bytes_per_element: int = 2
    ) -> int | float | None:
        """Return the bytes of a cache that holds so many tokens."""


def cache_growth(section: Section, *, specs: Mapping[str, CacheSpec]) -> alt.LayerChart:
    """Draw each checkpoint's cache against the context it holds, log by log.

    A line ends at the last position; it is dashed where a position extension carries it beyond
    the length it was first trained at, and bends where a window stops its layers from growing.
    One that states no last position goes on to 131,072 tokens and has no mark at its end.
    A checkpoint whose config does not give the sizes is named in the description, not drawn.

    Args:
        section: The fingerprints section.
        specs: The spec of each checkpoint, by the row's `name`.

    Raises:
        ResultsError: If the section has no rows, or none of its checkpoints can be drawn.
    """
    lines: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    undrawn: list[str] = []
    for row in rows_of(section):
        points = _points(row, specs.get(row["name"]))
        lines += points
        marks += _marks(row, points)
        if not points:
            undrawn.append(row["name"])
    if not lines:
        raise ResultsError(
            "at least one checkpoint must have a known cache size to be drawn; "
            f"got none of {undrawn}. Check that specs has the names of the section's rows."
        )
    return _draw(lines, marks, undrawn=undrawn)


def _points(row: Mapping[str, Any], spec: CacheSpec | None) -> list[dict[str, Any]]:
    if spec is None:
        return []
    end = row.get("max_position") or UNSTATED_END_TOKENS
    original, window = _original_length(row), _window(row)
    lengths = {length for length in (end, original, window) if length and length <= end}
    length = FIRST_TOKENS
    while length < end:
        lengths.add(length)
        length *= 2
    points = []
    for tokens in sorted(lengths):
        size = spec.cache_bytes(tokens=tokens, batch=1, bytes_per_element=2)
        if size:
            points.append({"checkpoint": row["name"], "tokens": tokens, "bytes": size})
    if original and original < end:
        return _split_at(points, original)
    return [point | {"stretch": "trained"} for point in points]


def _split_at(points: list[dict[str, Any]], original: int) -> list[dict[str, Any]]:
    # The point at the original length belongs to both stretches, or the line would have a gap.
    trained = [point | {"stretch": "trained"} for point in points if point["tokens"] <= original]
    extended = [point | {"stretch": "extended"} for point in points if point["tokens"] >= original]
    return trained + extended


def _original_length(row: Mapping[str, Any]) -> int | None:
    original: int | None = row.get("rope_original_max_position")
    return original if row.get("rope_is_extension") else None


def _window(row: Mapping[str, Any]) -> int | None:
    size: int | None = row.get("window_size")
    return size if row.get("window_enabled") else None


def _marks(row: Mapping[str, Any], points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    bytes_at = {point["tokens"]: point["bytes"] for point in points}
    places = zip(MARKS, (_window(row), _original_length(row), row.get("max_position")), strict=True)
    return [
        {
            "checkpoint": row["name"],
            "tokens": tokens,
            "bytes": bytes_at[tokens],
            "mark": mark,
            "size": plain_bytes(bytes_at[tokens]),
            "attention": row.get("attention_kind"),
        }
        for mark, tokens in places
        if tokens in bytes_at
    ]


def _draw(
    lines: list[dict[str, Any]], marks: list[dict[str, Any]], *, undrawn: list[str]
) -> alt.LayerChart:
    names = list(dict.fromkeys(point["checkpoint"] for point in lines))
    sizes = powers_of_ten(
        min(point["bytes"] for point in lines), max(point["bytes"] for point in lines)
    )
    chosen = alt.selection_point(
        name="checkpoint", fields=["checkpoint"], bind="legend", toggle="true"
    )
    legend = alt.Legend(orient="bottom", columns=3, title=None, labelLimit=170)
    scale = alt.Scale(domain=names, scheme="tableau10")
    encoded = {
        "x": alt.X(
            "tokens:Q",
            title="Context (tokens; 1K is 1,024)",
            scale=alt.Scale(type="log", base=2),
            axis=alt.Axis(labelExpr="datum.value < 1024 ? datum.value : datum.value / 1024 + 'K'"),
        ),
        "y": alt.Y(
            "bytes:Q",
            title="Cache of one sequence (bytes)",
            scale=alt.Scale(type="log", domain=[sizes[0], sizes[-1]]),
            axis=alt.Axis(format="~s", values=sizes),
        ),
        "color": alt.Color("checkpoint:N", scale=scale, legend=legend),
        "opacity": alt.condition(chosen, alt.value(1.0), alt.value(0.12)),
    }
    line = (
        chart_of(lines, name="growth")
        .mark_line(strokeWidth=2)
        .encode(
            **encoded,
            strokeDash=alt.StrokeDash(
                "stretch:N",
                scale=alt.Scale(domain=["trained", "extended"], range=[[1, 0], [5, 4]]),
                legend=alt.Legend(orient="bottom", title="positions"),
            ),
            detail="stretch:N",
        )
        .add_params(chosen)
    )
    point = (
        chart_of(marks, name="marks")
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            **encoded,
            shape=alt.Shape(
                "mark:N",
                scale=alt.Scale(domain=list(MARKS), range=["diamond", "triangle-up", "circle"]),
                legend=alt.Legend(orient="bottom", title="mark"),
            ),
            tooltip=[
                alt.Tooltip("checkpoint:N"),
                alt.Tooltip("attention:N"),
                alt.Tooltip("mark:N", title="here"),
                alt.Tooltip("tokens:Q", format=","),
                alt.Tooltip("size:N", title="cache"),
            ],
        )
    )
    chart = layered(line, point, height=360)
    return finish(chart, description=_description(lines, undrawn=undrawn))


def _description(lines: list[dict[str, Any]], *, undrawn: list[str]) -> str:
    per_token = {point["checkpoint"]: point["bytes"] / point["tokens"] for point in reversed(lines)}
    least, most = (
        min(per_token, key=per_token.__getitem__),
        max(per_token, key=per_token.__getitem__),
    )
    ratio = significant(per_token[most] / per_token[least], digits=3)
    text = (
        f"Line chart, both axes logarithmic: bytes of the key and value cache of one sequence "
        f"against its length, for {len(per_token)} checkpoints in 16 bit. At short lengths {least} "
        f"needs the least per token, {plain_bytes(per_token[least])}, and {most} the most, "
        f"{plain_bytes(per_token[most])}, {ratio:g} times as much. Dashed: beyond the length "
        "trained first. Marks: window, original length, last position."
    )
    return text + (f" Not drawn, sizes not stated: {', '.join(undrawn)}." if undrawn else "")
