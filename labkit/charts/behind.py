"""The table behind a chart: what its marks say when one points at them, made from the chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

_COMPOSED = ("layer", "vconcat", "hconcat", "concat")
_NOTHING = "–"
_SUMMARY = "The figure as a table"


def tables_behind(spec: Mapping[str, Any]) -> str:
    """Return a closed box with a table for each view of a chart whose marks have a tooltip.

    The columns are the tooltip's lines, so what a pointer can find the table shows as well. A view
    that sums up another's rows as the reader picks them has none.
    """
    found: dict[str, tuple[list[str], list[Mapping[str, Any]]]] = {}
    for view in _views(spec, spec.get("data")):
        rows = _rows(view, spec.get("datasets", {}))
        columns = {
            title: field
            for field, title in _tooltip(view["encoding"]["tooltip"])
            if any(field in row for row in rows)
        }
        if columns:
            body: list[Mapping[str, Any]] = [
                {title: row.get(field) for title, field in columns.items()} for row in rows
            ]
            # Layers over the same rows make one table.
            found.setdefault(repr(body), (list(columns), body))
    tables = "".join(_table(columns, rows) for columns, rows in found.values())
    if not tables:
        return ""
    return f'<details class="labkit-table"><summary>{_SUMMARY}</summary>{tables}</details>'


def _views(part: Mapping[str, Any], data: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    data = part.get("data", data)
    sums_up = any("aggregate" in step for step in part.get("transform", ()))
    if part.get("encoding", {}).get("tooltip") and not sums_up:
        yield {**part, "data": data}
    for key in _COMPOSED:
        for child in part.get(key, ()):
            yield from _views(child, data)


def _rows(view: Mapping[str, Any], datasets: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    data = view["data"] or {}
    rows: Sequence[Mapping[str, Any]] = data.get("values") or datasets.get(data.get("name", ""), ())
    return rows


def _tooltip(encoded: Any) -> Iterator[tuple[str, str]]:
    for line in encoded if isinstance(encoded, list) else [encoded]:
        if "field" in line:
            yield line["field"], line.get("title") or line["field"].replace("_", " ")


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{_cell(row[column])}</td>' for column in columns)}</tr>"
        for row in rows
    )
    return (
        f'<div class="labkit-table-box" tabindex="0" role="group" aria-label="{_SUMMARY}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(value: object) -> str:
    if value is None:
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
