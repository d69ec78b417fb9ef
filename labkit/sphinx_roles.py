"""Say to a screen reader what a page shows, where the writers of its parts do not.

pandas and docutils make the empty corner of a table a header without a name. docutils lists the
references as items of a role that is no longer one, inside a list that takes only list items.
"""

from __future__ import annotations

import re
from typing import Any

_EMPTY_HEADER = re.compile(r"<th\b([^>]*)>\s*(?:<p>\s*</p>)?\s*</th>")
_REFERENCE = re.compile(r'(<div class="citation"[^>]*) role="doc-biblioentry"')


def setup(app: Any) -> dict[str, Any]:
    """Connect to the build."""
    app.connect("html-page-context", _mend_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def mended(body: str) -> str:
    """Return a page's HTML with empty corners as plain cells and references as list items."""
    body = _EMPTY_HEADER.sub(r"<td\1></td>", body)
    return _REFERENCE.sub(r'\1 role="listitem"', body)


def _mend_page(
    app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    if "body" in context:
        context["body"] = mended(context["body"])
