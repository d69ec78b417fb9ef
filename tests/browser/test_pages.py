"""What a reader's browser makes of every page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import accessibility
import pytest
from built_site import SITE, pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
READY_WITHIN_MS = 30_000  # a first chart takes about a second; the cores may be busy
_FIRST_DRAWN_SCRIPT = "figures => figures.every(f => f.dataset.state !== 'waiting')"
_WIDE_SCRIPT = """() => [...document.querySelectorAll('.bd-article *')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
    .filter(e => { for (let p = e.parentElement; p; p = p.parentElement)
        if (getComputedStyle(p).overflowX !== 'visible' && p.clientWidth <= innerWidth
            && p !== document.body && p !== document.documentElement) return false; return true })
    .slice(0, 3).map(e => e.outerHTML.slice(0, 120))"""


@dataclass(slots=True)
class Seen:
    """What went wrong while a page was open."""

    external: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def watch(self, page: Page, *, home: str) -> None:
        """Take down every request to elsewhere, every failed answer and every error."""
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((home, "data:", "blob:"))
                else self.external.append(request.url)
            ),
        )
        page.on(
            "response",
            lambda answer: (
                self.failed.append(f"{answer.status} {answer.url}")
                if answer.status >= 400
                else None
            ),
        )
        page.on("requestfailed", lambda request: self.failed.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "console",
            lambda message: self.errors.append(message.text) if message.type == "error" else None,
        )


@contextmanager
def opened(
    browser: Browser, url: str, *, viewport: dict[str, int], scheme: str
) -> Iterator[tuple[Page, Seen]]:
    """Open a page in a fresh window and wait until its charts have been tried."""
    window = browser.new_context(viewport=viewport, color_scheme=scheme)
    window.set_default_timeout(READY_WITHIN_MS)
    page, seen = window.new_page(), Seen()
    seen.watch(page, home=url.split("/", 3)[0] + "//" + url.split("/", 3)[2])
    page.goto(url, wait_until="load")
    if url.endswith("/index.html"):  # it points on to the first page
        page.wait_for_url("**/intro.html", wait_until="load")
    wait_for_charts(page)
    yield page, seen
    window.close()


def wait_for_charts(page: Page) -> None:
    """Wait until no chart of the page is waiting to be drawn."""
    page.wait_for_function(
        f"({_FIRST_DRAWN_SCRIPT})([...document.querySelectorAll('.labkit-chart')])",
        timeout=READY_WITHIN_MS,
    )


def states(page: Page) -> list[str]:
    """Return the state of each chart."""
    script = "figures => figures.map(f => f.dataset.state)"
    return page.locator(".labkit-chart").evaluate_all(script)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A page as it was found: opened once, since loading takes the longest."""

    scheme: str
    theme: str
    seen: Seen
    drawn: list[str]
    beyond_px: int
    wide: list[str]
    faults: list[str]


VIEWS = [pytest.param((DESKTOP, "light"), id="desktop"), pytest.param((PHONE, "dark"), id="phone")]


@pytest.fixture(scope="module", params=VIEWS)
def view(request: pytest.FixtureRequest) -> tuple[dict[str, int], str]:
    """Return a window's size and the colours that its owner prefers."""
    return request.param


@pytest.fixture(scope="module", params=pages())
def visit(
    request: pytest.FixtureRequest,
    browser: Browser,
    site_url: str,
    view: tuple[dict[str, int], str],
) -> Visit:
    """Open a page in a window, take everything down, and close it."""
    viewport, scheme = view
    url = f"{site_url}/{request.param}"
    with opened(browser, url, viewport=viewport, scheme=scheme) as (page, seen):
        scrolled = "document.documentElement.scrollWidth - innerWidth"
        return Visit(
            scheme=scheme,
            theme=page.evaluate("document.documentElement.dataset.theme"),
            seen=seen,
            drawn=states(page),
            beyond_px=page.evaluate(scrolled),
            wide=page.evaluate(_WIDE_SCRIPT),
            faults=accessibility.faults(page),  # the last: it changes the page
        )


def test_page_stays_local_and_draws(visit: Visit) -> None:
    """A page asks no other host, logs no error, gets no failure, and draws every chart."""
    assert (visit.seen.external, visit.seen.errors, visit.seen.failed) == ([], [], [])
    assert set(visit.drawn) <= {"ready"}
    assert visit.theme == visit.scheme


def test_page_fits_its_window(visit: Visit) -> None:
    """No page scrolls sideways, on a phone neither, and what is wide lies in a box that scrolls."""
    assert visit.beyond_px <= 0
    assert visit.wide == []


def test_page_is_accessible(visit: Visit) -> None:
    """Axe finds nothing wrong with a page, folds opened, but for the theme's listed faults."""
    assert visit.faults == []


def chart_pages() -> list[str]:
    """Name the pages with charts."""
    mark = 'class="labkit-chart"'
    return [page for page in pages() if mark in (SITE / page).read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", chart_pages())
def test_charts_follow_the_theme_switch(browser: Browser, site_url: str, path: str) -> None:
    """Switching the theme redraws each chart in the other colours, without a reload."""
    label = ".labkit-chart svg .role-axis-label text"
    with opened(browser, f"{site_url}/{path}", viewport=DESKTOP, scheme="light") as (page, seen):
        before = page.locator(label).first.get_attribute("fill")
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        page.wait_for_function(
            f"document.querySelector('{label}')?.getAttribute('fill') !== '{before}'"
        )
        after = states(page)

    assert set(after) == {"ready"}
    assert seen.errors == []


@pytest.mark.parametrize("path", chart_pages())
def test_charts_have_a_text_alternative(browser: Browser, site_url: str, path: str) -> None:
    """Each chart is a figure whose name says in words what it shows."""
    with opened(browser, f"{site_url}/{path}", viewport=DESKTOP, scheme="light") as (page, _):
        names = page.get_by_role("figure").evaluate_all(
            "figures => figures.filter(f => f.matches('.labkit-chart'))"
            ".map(f => f.getAttribute('aria-label'))"
        )
        number = page.locator(".labkit-chart").count()

    assert len(names) == number
    assert all(len(name.split()) > 10 for name in names)


BOUNDARY = "book/chapter/what_the_runtime_decides.html"
_OPACITIES = "marks => marks.map(m => [m.getAttribute('fill'), Number(m.getAttribute('opacity'))])"


@pytest.fixture
def boundary(browser: Browser, site_url: str) -> Iterator[Page]:
    """Open the page of the boundary figure."""
    if not (SITE / BOUNDARY).is_file():
        pytest.skip(f"the built site has no {BOUNDARY}: stage a run with `labkit book`")
    with opened(browser, f"{site_url}/{BOUNDARY}", viewport=DESKTOP, scheme="light") as (page, _):
        yield page


def test_hover_says_which_run(boundary: Page) -> None:
    """Hovering a mark of the boundary figure shows its option, prompt and margin."""
    figure = boundary.get_by_label("Scatter chart, one mark a run")
    figure.locator(".mark-symbol.role-mark path").first.hover(force=True)
    tip = boundary.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    text = tip.inner_text()

    assert all(word in text for word in ("option", "prompt", "baseline's margin there"))


def test_legend_picks_a_kind(boundary: Page) -> None:
    """Clicking a kind in the legend leaves its marks as they are and fades the others."""
    figure = boundary.get_by_label("Scatter chart, one mark a run")
    marks = figure.locator(".mark-symbol.role-mark path")
    figure.locator(".role-legend-label text", has_text="model").click(force=True)
    boundary.wait_for_function(
        "() => [...document.querySelectorAll('.labkit-chart .mark-symbol.role-mark path')]"
        ".some(m => Number(m.getAttribute('opacity')) < 0.1)"
    )
    shown = marks.evaluate_all(_OPACITIES)

    assert {opacity for fill, opacity in shown if fill == "#d55e00"} == {0.8}
    assert {opacity for fill, opacity in shown if fill != "#d55e00"} == {0.06}


def test_a_missing_bundle_is_said(browser: Browser, site_url: str) -> None:
    """Where the drawing script cannot be had, the chart's words take its place."""
    path = next(iter(chart_pages()), None)
    if path is None:
        pytest.skip("the built site has no charts: stage a run with `labkit book`")
    window = browser.new_context()
    page = window.new_page()
    page.route("**/labkit-vega.js*", lambda route: route.abort())
    page.goto(f"{site_url}/{path}")
    wait_for_charts(page)
    text = page.locator(".labkit-chart").first.inner_text()
    found = states(page)
    window.close()

    assert set(found) == {"error"}
    assert "Not drawn: cannot load" in text


@pytest.mark.parametrize("path", pages())
def test_page_names_an_icon_that_is_there(path: str) -> None:
    """A page names its icon, so that no browser asks the host for one of its own choice."""
    icons = re.findall(r'<link rel="icon"[^>]*href="([^"]+)"', (SITE / path).read_text("utf-8"))

    assert icons
    files = [icon for icon in icons if not icon.startswith("data:")]
    assert all(((SITE / path).parent / file).is_file() for file in files)
