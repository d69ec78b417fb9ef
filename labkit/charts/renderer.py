"""Show Altair charts with no network, in JupyterLab and in the book.

The stock renderers fetch their script from another host and number their outputs at random. This
one stores the chart itself under the MIME type JupyterLab draws, and the same chart always gives
the same bytes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import altair as alt

from labkit.charts.style import WIDTH_PX
from labkit.errors import LabError

MIME = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_NAME = "labkit"


def enable() -> None:
    """Make our renderer and theme the ones that Altair uses in this process."""
    if _NAME not in alt.renderers.names():
        alt.renderers.register(_NAME, mimebundle)
    alt.renderers.enable(_NAME)
    alt.theme.register(_NAME, enable=True)(_theme)


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
    chart["$schema"] = SCHEMA
    return {MIME: chart, "text/plain": description}


def _with_numeric_widths(part: dict[str, Any]) -> dict[str, Any]:
    # JupyterLab's tab hangs on width="container".
    if part.get("width") == "container":
        part["width"] = WIDTH_PX
    for key in ("layer", "vconcat", "hconcat", "concat"):
        for child in part.get(key, ()):
            _with_numeric_widths(child)
    return part
