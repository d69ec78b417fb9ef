"""A book that asks no other host for anything: formulas as MathML, and no live-code scripts.

Jupyter Book always adds sphinx-thebe, whose script other hosts serve and which declares one of its
constants twice; Sphinx's own formulas come from a script on another host.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

from labkit.errors import LabError

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
        LabError: If the formula cannot be read, or uses a command the converter does not know.
    """
    from latex2mathml.converter import convert

    try:
        markup = str(convert(latex, display=display))
    except Exception as error:  # the converter has many classes of its own, all one fault to us
        raise LabError(
            f"a formula must be LaTeX that can be read; got {latex!r}: {error}"
        ) from error
    # An unknown command is left in the text as it is, where a reader would see its backslash.
    if "\\" in re.sub(r"<annotation.*?</annotation>", "", markup):
        raise LabError(
            f"a formula must use commands that MathML can be made of; got {latex!r}. "
            "Write it with simpler commands."
        )
    return markup


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
