"""Show Altair charts with no network, in JupyterLab and in the book.

The stock renderers fetch their script from another host and number their outputs at random. This
one stores the chart itself under the MIME type JupyterLab draws, and the same chart always gives
the same bytes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt
import pandas as pd

from labkit.charts.style import WIDTH_PX
from labkit.errors import LabError

MIME = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_NAME = "labkit"
_COMPOSED = ("layer", "vconcat", "hconcat", "concat")


def enable() -> None:
    """Make this process show our charts, and tables with every word, column and row."""
    if _NAME not in alt.renderers.names():
        alt.renderers.register(_NAME, mimebundle)
    alt.renderers.enable(_NAME)
    alt.theme.register(_NAME, enable=True)(_theme)
    # pandas would cut a reason after 50 characters, and a table after 60 rows.
    for limit in ("display.max_colwidth", "display.max_columns", "display.max_rows"):
        pd.set_option(limit, None)


def _theme() -> alt.theme.ThemeConfig:
    # An empty theme: Altair's own adds sizes that would win over the book's.
    return {}


def mimebundle(spec: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """Return what a notebook stores for a chart.

    Raises:
        LabError: If the chart has no `description`, its alternative for who cannot see it.
    """
    description = spec.get("description")
    if not isinstance(description, str) or not description.strip():
        raise LabError(
            "a chart must have a `description`, the text read out in its place; "
            f"got description={description!r}. Pass one to alt.Chart(…, description=…)."
        )
    chart = _with_numeric_widths(copy.deepcopy(dict(spec)))
    _give_params_to_their_views(chart)
    chart["$schema"] = SCHEMA
    return {MIME: chart, "text/plain": description}


def as_stored(chart: Any) -> dict[str, Any]:
    """Return a chart as a notebook stores it, for a page that no notebook made."""
    enable()
    stored: dict[str, Any] = mimebundle(chart.to_dict())[MIME]
    return stored


def _give_params_to_their_views(chart: dict[str, Any]) -> None:
    # Altair lists selections beside the views they belong to. The Vega-Lite of JupyterLab 4.6
    # then draws nothing where such a view is a line with points; inside the view it draws.
    kept = []
    for param in chart.pop("params", ()):
        views = [view for view in _units(chart) if view.get("name") in param.get("views", ())]
        if not views:
            kept.append(param)
        for view in views:
            own = {key: value for key, value in param.items() if key != "views"}
            view.setdefault("params", []).append(own)
    if kept:
        chart["params"] = kept


def _units(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    children = [child for key in _COMPOSED for child in part.get(key, ())]
    if not children:
        yield part
    for child in children:
        yield from _units(child)


def _with_numeric_widths(part: dict[str, Any]) -> dict[str, Any]:
    # JupyterLab's tab hangs on width="container".
    if part.get("width") == "container":
        part["width"] = WIDTH_PX
    for key in _COMPOSED:
        for child in part.get(key, ()):
            _with_numeric_widths(child)
    return part
