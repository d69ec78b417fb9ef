"""The directive that puts a live figure on a page: `{live-figure} boundary`.

A figure is made while the book is built, from the results of the run that the book shows. One that
needs a script of its own names it in `data-script`; only pages with such a figure load it. One that
needs further files has a `write_files`.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from labkit import figures
from labkit.errors import LabError
from labkit.results import RESULTS_NAME, read_results

STAGE = "book/run"
"""Where a build finds the results of the run it shows."""
_SCRIPT = re.compile(r'data-script="([\w.-]+)"')


class LiveFigure(SphinxDirective):
    """Put the figure of that name here."""

    required_arguments: ClassVar[int] = 1
    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Return the figure, or an error that names the page and line."""
        stage = Path(self.env.srcdir) / STAGE
        self.env.note_dependency(str(stage / RESULTS_NAME))
        try:
            html = render(self.arguments[0], stage=stage)
            if write_files := getattr(figure_named(self.arguments[0]), "write_files", None):
                static = Path(self.env.app.outdir) / "_static"
                static.mkdir(parents=True, exist_ok=True)
                write_files(static)
        except LabError as problem:
            raise self.error(str(problem)) from problem
        return [nodes.raw("", html, format="html")]


def render(name: str, *, stage: Path) -> str:
    """Return a figure's HTML.

    Raises:
        LabError: If there is no such figure, or the run lacks what it needs.
    """
    module = figure_named(name)
    html: str = module.render(read_results(stage))
    return html


def figure_named(name: str) -> Any:
    """Return the module of a figure.

    Raises:
        LabError: If there is none of that name.
    """
    known = sorted(path.stem for path in Path(figures.__path__[0]).glob("[a-z]*.py"))
    if name not in known:
        raise LabError(
            f"a live figure must be one of {', '.join(known)}; got {name!r}. "
            "A new one is a module in labkit/figures with a `render`."
        )
    return importlib.import_module(f"{figures.__name__}.{name}")


def setup(app: Any) -> dict[str, Any]:
    """Connect the directive and the figures' scripts to the build."""
    app.add_directive("live-figure", LiveFigure)
    app.connect("html-page-context", _add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_scripts(
    app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    for script in dict.fromkeys(_SCRIPT.findall(context.get("body", ""))):
        app.add_js_file(script, defer="defer")
