"""How soon a reader of the built site sees a chart."""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from benches._figures import PAIRS, ROOT, Figure, figure

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_SITE = Path(os.environ.get("LABKIT_SITE", ROOT / "_build/html"))
_BOUNDARY = "book/chapter/what_the_runtime_decides.html"
_SPEC = re.compile(r'class="labkit-chart-spec">(.*?)</script>', re.DOTALL)
_PATIENCE_MS = 60_000
# The page's own clock starts with the navigation, before its first byte is asked for.
_WATCH = """
new MutationObserver((changes) => {
  const is_ready = ({target}) => target.matches(".labkit-chart[data-state='ready']");
  if (changes.some(is_ready)) window.labkitFirstChart ??= performance.now();
}).observe(document, {attributes: true, attributeFilter: ["data-state"], subtree: true});
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def measure_figures() -> Iterator[Figure]:
    """Time the first chart of three pages, each in a browser that has seen nothing of the site."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    pages = _pages(_SITE)
    if chromium is None or not pages:
        lacks = "no Chromium on PATH" if chromium is None else f"no built book at {_SITE}"
        print(f"first chart: not measured, {lacks}", file=sys.stderr)
        return
    with _served(_SITE) as address, sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        try:
            for what, page in pages.items():
                yield _first_chart(browser, address, what=what, page=page)
        finally:
            browser.close()


def _first_chart(browser: Browser, address: str, *, what: str, page: str) -> Figure:
    return figure(
        f"first chart, {what}",
        [_first_chart_s(browser, f"{address}/{page}") for _ in range(PAIRS)],
        unit="s",
        target=1.5,
        at_most=True,
        note=f"{page} over loopback, from the navigation to the first chart that is drawn; "
        f"nothing cached; {_specs_bytes(_SITE / page):,} bytes of charts; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
    )


def _pages(site: Path) -> dict[str, str]:
    """Return the pages to open by what they are: met first, about the boundary, and heaviest."""
    from labkit.book import FIRST_PAGE, pages_in_order

    if not (site / FIRST_PAGE).is_file():
        return {}
    charted = [page for page in pages_in_order(site / FIRST_PAGE) if _specs_bytes(page)]
    if not charted:
        return {}
    chosen = {
        "the first page that has one": charted[0],
        "the boundary": (site / _BOUNDARY).resolve(),
        "the page with the most of them to read": max(charted, key=_specs_bytes),
    }
    top = site.resolve()
    return {
        what: page.relative_to(top).as_posix() for what, page in chosen.items() if page in charted
    }


def _specs_bytes(page: Path) -> int:
    return sum(len(spec.encode()) for spec in _SPEC.findall(page.read_text(encoding="utf-8")))


def _first_chart_s(browser: Browser, address: str) -> float:
    window = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        window.add_init_script(_WATCH)
        page = window.new_page()
        page.goto(address, wait_until="commit")
        page.wait_for_function("() => window.labkitFirstChart", timeout=_PATIENCE_MS)
        return float(page.evaluate("() => window.labkitFirstChart")) / 1000
    finally:
        window.close()


@contextmanager
def _served(site: Path) -> Iterator[str]:
    """Serve a site over loopback, and give its address."""
    handler = functools.partial(_Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
