"""Launch buttons that lead to a notebook of the repository, and not to the copy that a run left.

A book that is published with `repository` and `launch_buttons` in `_config.yml` gets the theme's
own buttons. They would name the page's source, which lies in `book/run` and is no file of the
repository; the notebook of the same name in `notebooks` is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

STAGED, KEPT = "book/run/", "notebooks/"


def setup(app: Any) -> dict[str, Any]:
    """Mend the buttons once the theme has made them."""
    app.connect("html-page-context", _lead_to_the_repository, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _lead_to_the_repository(
    app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    del app, templatename, doctree
    if not pagename.startswith(STAGED):
        return
    for button in _buttons(context.get("header_buttons", [])):
        url = button.get("url", "")  # that of the download has no host, and stays
        if url.startswith(("http://", "https://")) and f"{pagename}.ipynb" in url:
            button["url"] = url.replace(STAGED, KEPT)


def _buttons(listed: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield every button, those within a group as well."""
    for button in listed:
        yield button
        if isinstance(button, Mapping):
            yield from _buttons(button.get("buttons", []))
