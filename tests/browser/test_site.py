"""What holds of the built site as files: links and anchors, images, and the weight of pages."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from built_site import SITE, pages

pytestmark = pytest.mark.browser

LARGEST_PAGE_BYTES = 1_500_000


class _Page(HTMLParser):
    """Gathers a page's anchors, the links it holds, and its images without a text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.wordless: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take down what the tag names, points to, or lacks."""
        given = dict(attrs)
        self.anchors |= {given[key] or "" for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        if tag == "img" and "alt" not in given:
            self.wordless.append(given.get("src") or "")


def broken_links(path: str) -> list[str]:
    """Return a page's links within the site that lead to no file, or to no anchor in it."""
    here = SITE / path
    broken = []
    for link in _Page(here).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (here.parent / unquote(parts.path)).resolve() if parts.path else here
        anchor = unquote(parts.fragment)
        there = target.is_file() and (
            not anchor or target.suffix != ".html" or anchor in _Page(target).anchors
        )
        if not there:
            broken.append(link)
    return broken


@pytest.mark.parametrize("path", pages())
def test_links_within_the_site_hold(path: str) -> None:
    """Each link to a page of the site finds the page, and the anchor if it names one."""
    assert broken_links(path) == []


@pytest.mark.parametrize("path", pages())
def test_images_have_a_text(path: str) -> None:
    """Each image says in words what it shows, or is marked as decoration."""
    assert _Page(SITE / path).wordless == []


@pytest.mark.parametrize("path", pages())
def test_a_page_is_light(path: str) -> None:
    """A page with its data stays small beside the scripts that all pages share."""
    assert (SITE / path).stat().st_size <= LARGEST_PAGE_BYTES
