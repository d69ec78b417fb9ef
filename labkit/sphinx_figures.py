"""The directive that puts a live figure on a page: `{live-figure} boundary`.

A figure is made while the book is built, from the results of the run that the book shows, and
followed by the line that leads to where its numbers come from. One that needs a script of its own
names it in `data-script`; only pages with such a figure load it. One that needs further files has a
`write_files`.
"""

from __future__ import annotations

import importlib
import re
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from labkit import figures
from labkit.errors import LabError, ResultsError
from labkit.origins import RUN, line_html, origin_of
from labkit.results import RESULTS_NAME
from labkit.sphinx_run import linker
from labkit.staged import SHOWN_NAME, STAGE, read_shown, staged_results

_SCRIPT = re.compile(r'data-script="([\w.-]+)"')


class LiveFigure(SphinxDirective):
    """Put the figure of that name here."""

    required_arguments: ClassVar[int] = 1
    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Return the figure and where it is from, or an error that names the page and line."""
        stage = Path(self.env.srcdir) / STAGE
        for name in (RESULTS_NAME, SHOWN_NAME):
            self.env.note_dependency(str(stage / name))
        try:
            html = render(self.arguments[0], stage=stage)
            if write_files := getattr(figure_named(self.arguments[0]), "write_files", None):
                static = Path(self.env.app.outdir) / "_static"
                static.mkdir(parents=True, exist_ok=True)
                write_files(static)
            origins = origins_of(figure_named(self.arguments[0]))
            found = [origin_of(key, stage=stage) for key in origins]
        except LabError as problem:
            raise self.error(str(problem)) from problem
        if found:
            html += line_html(found, link=linker(self.env.app, self.env.docname))
        return [nodes.raw("", html, format="html")]


def render(name: str, *, stage: Path) -> str:
    """Return a figure's HTML, or a note where the run lacks what it shows.

    Raises:
        LabError: If there is no such figure.
    """
    module = figure_named(name)
    results = staged_results(stage)
    section = getattr(module, "SECTION", None)
    if section and not results[section]:
        return _lacks(f"This figure shows the section {section}", stage=stage)
    try:
        html: str = module.render(results)
    except (KeyError, ResultsError):
        # The schema asks only for what every release of the lab has written.
        if section and read_shown(stage).lacks:
            return _lacks(f"This figure needs more of the section {section}", stage=stage)
        raise
    return html


def origins_of(module: Any) -> tuple[str, ...]:
    """Return the keys of what a figure is made from: the run, where it does not say otherwise."""
    origins: tuple[str, ...] = getattr(module, "ORIGINS", (RUN,))
    return origins


def _lacks(what: str, *, stage: Path) -> str:
    shown = read_shown(stage)
    note = shown.note(f"{what}, which {shown.run} does not have.")
    words = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(note))
    return f'<p class="labkit-lacks" role="note">{words}</p>'


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
