"""A book that asks no other host for anything: formulas as MathML, and no live-code scripts.

Jupyter Book always adds sphinx-thebe, whose script other hosts serve and which declares one of its
constants twice; Sphinx's own formulas come from a script on another host.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes

from labkit.errors import LabError

_PARTS = {"mfrac": 2, "msub": 2, "msup": 2, "msubsup": 3, "mroot": 2}
_THEBE = re.compile("thebe", re.IGNORECASE)


def setup(app: Any) -> dict[str, Any]:
    """Register the formula renderer and the filter for scripts."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    # Late: sphinx-thebe has to have added what is taken away.
    app.connect("html-page-context", _drop_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def mathml(latex: str, *, display: str) -> str:
    r"""Turn LaTeX into MathML, which browsers draw without a script.

    Raises:
        LabError: If the formula cannot be read, or uses what the converter does not know.
    """
    from latex2mathml import converter, exceptions

    faults = tuple(
        fault
        for fault in vars(exceptions).values()
        if isinstance(fault, type) and issubclass(fault, Exception)
    )
    try:
        markup = str(converter.convert(latex, display=display))
    except faults as error:
        raise LabError(_refusal(latex, type(error).__name__)) from error
    if fault := _fault_in(latex, markup):
        raise LabError(_refusal(latex, fault))
    return markup


def _fault_in(latex: str, markup: str) -> str | None:
    # The converter passes over some mistakes; a reader would see them as odd signs.
    if _depth(latex):
        return "its braces do not match"
    try:
        tree = ElementTree.fromstring(markup)
    except ElementTree.ParseError as error:
        return f"it has a sign that MathML has not: {error}"
    if "\\" in "".join(tree.itertext()):
        return "it has an unknown command"
    wrong = [
        part.tag.rpartition("}")[2]
        for part in tree.iter()
        if len(part) != _PARTS.get(part.tag.rpartition("}")[2], len(part))
    ]
    return f"a part is missing in {wrong[0]}" if wrong else None


def _depth(latex: str) -> int:
    bare = re.sub(r"\\.", "", latex)
    return bare.count("{") - bare.count("}")


def _refusal(latex: str, fault: str) -> str:
    return (
        f"a formula must be LaTeX that MathML can be made of; got {latex!r}: {fault}. "
        "Write it with simpler commands."
    )


def _visit_inline(translator: Any, node: nodes.math) -> None:
    markup = mathml(node.astext(), display="inline")
    translator.body.append(f'<span class="math notranslate nohighlight">{markup}</span>')
    raise nodes.SkipNode


def _visit_block(translator: Any, node: nodes.math_block) -> None:
    markup = mathml(node.astext(), display="block")
    translator.body.append(f'<div class="math notranslate nohighlight">{markup}</div>')
    raise nodes.SkipNode


def _drop_thebe(
    app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context.get(kind, ()) if not _is_thebe(file)]


def _is_thebe(file: Any) -> bool:
    body = (getattr(file, "attributes", None) or {}).get("body") or ""
    return bool(_THEBE.search(f"{getattr(file, 'filename', None) or file}{body}"))
