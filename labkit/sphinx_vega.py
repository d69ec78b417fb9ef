"""Vega-Lite charts in the book, drawn in the reader's browser from the site's own files.

A chart becomes a figure with its text alternative, an inert block of JSON and its table; a page
that has one loads `labkit-charts.js`, which fetches the Vega bundle that lies beside it and draws.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes

from labkit.charts.behind import tables_behind
from labkit.errors import ResultsError

MIME = "application/vnd.vegalite.v5+json"
SCRIPT = "labkit-charts.js"
CHOICES_SCRIPT = "labkit-choices.js"
BUNDLE = "labkit-vega.js"
VEGA_LITE = "5.21"
"""The last Vega-Lite of the version that the charts' schema names, among those vl-convert has."""
_CHART_CLASS = "labkit-chart"
_NO_DESCRIPTION = (
    "a chart in the book must have a `description`, its text alternative; got one without. "
    "Make it with a function of labkit.charts, or pass alt.Chart(…, description=…)."
)


class VegaRenderer:
    """The MIME renderer that myst-nb finds by its entry point."""

    mime_priority_overrides: ClassVar[Sequence[tuple[str, str, int | None]]] = [("*", MIME, 1)]

    @staticmethod
    def handle_mime(renderer: object, data: Any, inline: bool) -> list[nodes.Element] | None:
        """Return the nodes of a chart, or None where the output is none."""
        if inline or data.mime_type != MIME:
            return None
        return [chart_node(data.content)]


def chart_node(content: str | Mapping[str, Any]) -> nodes.raw:
    """Return the node of a chart that a notebook stored.

    Raises:
        ResultsError: If the chart has no description.
    """
    spec = json.loads(content) if isinstance(content, str) else dict(content)
    return nodes.raw("", chart_html(spec), format="html")


def chart_html(spec: Mapping[str, Any]) -> str:
    """Return the figure that the script fills, and the table behind it.

    Raises:
        ResultsError: If the chart has no description.
    """
    description = spec.get("description")
    if not description:
        raise ResultsError(_NO_DESCRIPTION)
    # Read out as the figure's name; "</" would end the script block early.
    inert = json.dumps(spec, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    return (
        f'<div class="{_CHART_CLASS}" role="figure" aria-label="{escape(description)}" '
        'data-state="waiting">'
        f'<div class="{_CHART_CLASS}-view" style="min-height:{_height(spec)}px"></div>'
        f'<script type="application/json" class="{_CHART_CLASS}-spec">{inert}</script>'
        f"<noscript><p>{escape(description)}</p></noscript></div>{tables_behind(spec)}"
    )


def _height(spec: Mapping[str, Any]) -> int:
    # Space kept before the chart is drawn, so that the text below does not jump.
    parts = spec.get("vconcat", [spec])
    return sum(int(part.get("height", 0)) for part in parts)


def setup(app: Any) -> dict[str, Any]:
    """Connect the script and the bundle to the build."""
    app.connect("html-page-context", _add_script)
    app.connect("build-finished", _write_bundle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_script(
    app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    if f'class="{_CHART_CLASS}"' in context.get("body", ""):
        app.add_js_file(CHOICES_SCRIPT, defer="defer")
        app.add_js_file(SCRIPT, defer="defer", **{"data-bundle": BUNDLE})


def _write_bundle(app: Any, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    target = Path(app.outdir) / "_static" / BUNDLE
    mark = f"/* Vega-Lite {VEGA_LITE}, vl-convert {version('vl-convert-python')} */"
    if target.is_file() and target.read_text(encoding="utf-8").startswith(mark):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"{mark}\n{vega_bundle()}", encoding="utf-8")


def vega_bundle() -> str:
    """Return Vega, Vega-Lite and the embedder as one script without names of its own.

    Unwrapped, its short global names would replace those of Sphinx's own scripts.
    """
    import vl_convert

    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA_LITE)
    return f"(function(){{{script}}})();\n"
