"""What the pages of a book say about the run behind them, added while the book is built.

A page that quotes a number which the run lacks says so in its place and at its top, with the
command that makes it. A table or chart that was measured is followed by the line that leads to
its run.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes

from labkit.origins import RUN, Link, line_html, origin_of, read_by
from labkit.staged import STAGE, Shown, admonition, is_promised, numbers_in, read_shown

_QUOTED = re.compile(r"\{glue:text\}`(?P<notebook>[^`:]+\.ipynb)::(?P<key>[^`:]+)(?::[^`]*)?`")
_TITLE = re.compile(r"^# .*\n", re.MULTILINE)
NOT_THERE = "*not in this run*"
_MEASURED = "labkit_measured"
_SHOWS_DATA = re.compile(r"<table|labkit-chart|<svg")


def setup(app: Any) -> dict[str, Any]:
    """Connect to the build."""
    app.connect("source-read", fill_gaps)
    app.connect("doctree-read", mark_measured)
    app.connect("doctree-resolved", name_origins)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def fill_gaps(app: Any, docname: str, source: list[str]) -> None:
    """Replace the quoted numbers that the run lacks, and say at the top of the page which."""
    if not docname.startswith("book/") or docname.startswith(f"{STAGE}/"):
        return
    top = Path(app.srcdir)
    source[0] = filled(source[0], docname=docname, top=top, shown=read_shown(top / STAGE))


def filled(text: str, *, docname: str, top: Path, shown: Shown) -> str:
    """Return a page with words in place of the numbers that the run lacks.

    A number that no notebook of the lab stores is a slip of the page, and is left for the build
    to refuse.

    Args:
        text: The page.
        docname: Its name in the book.
        top: The book's source.
        shown: The run that is shown.
    """
    lacking: dict[str, int] = {}

    def fill(match: re.Match[str]) -> str:
        page = posixpath.normpath(posixpath.join(posixpath.dirname(docname), match["notebook"]))
        notebook = posixpath.basename(page)
        if match["key"] in numbers_in(top / page) or not is_promised(notebook, match["key"]):
            return match[0]
        lacking[notebook] = lacking.get(notebook, 0) + 1
        return NOT_THERE

    page = _QUOTED.sub(fill, text)
    if not lacking:
        return text
    what = ", ".join(f"{count} of `{name}`" for name, count in lacking.items())
    note = shown.note(f"Numbers that this page quotes are not in {shown.run}: {what}.")
    return _TITLE.sub(lambda title: f"{title[0]}\n{admonition(note)}\n", page, count=1)


def mark_measured(app: Any, doctree: nodes.document) -> None:
    """Remember, before numbers are put in their places, which tables hold any."""
    for table in doctree.findall(nodes.table):
        if any("Glue" in type(node).__name__ for node in table.findall()):
            table[_MEASURED] = True


def name_origins(app: Any, doctree: nodes.document, docname: str) -> None:
    """Put the line that names the run below each table and chart that comes from it."""
    if app.builder.format != "html" or not docname.startswith("book/"):
        return
    shows = _measured_in_notebook if docname.startswith(f"{STAGE}/") else _measured_in_prose
    found = list(doctree.findall(shows))
    if not found:
        return
    link = linker(app, docname)
    stage = Path(app.srcdir) / STAGE
    beside = [origin_of(key, stage=stage) for key in read_by(posixpath.basename(docname))]
    line = line_html([origin_of(RUN, stage=stage)], link=link, beside=beside)
    for node in found:
        place = node.parent.index(node)
        node.parent.insert(place + 1, nodes.raw("", line, format="html"))


def linker(app: Any, docname: str) -> Link:
    """Return what turns a page and an anchor into an address relative to a page."""

    def link(page: str, anchor: str) -> str:
        address: str = app.builder.get_relative_uri(docname, page)
        return f"{address}#{anchor}" if anchor else address

    return link


def _measured_in_prose(node: nodes.Node) -> bool:
    return isinstance(node, nodes.table) and bool(node.get(_MEASURED))


def _measured_in_notebook(node: nodes.Node) -> bool:
    if not isinstance(node, nodes.container) or "cell_output" not in node.get("classes", ()):
        return False
    return any(_SHOWS_DATA.search(raw.astext()) for raw in node.findall(nodes.raw)) or bool(
        list(node.findall(nodes.image))
    )
