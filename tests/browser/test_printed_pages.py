"""The chapter on paper: every page in order, figures drawn, links that lead within the PDF."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from built_site import SITE

from labkit.book import FIRST_PAGE, printing
from labkit.errors import RunError
from labkit.files import data_file

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pypdf = pytest.importorskip("pypdf")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not shutil.which("chromium"), reason="run `apt-get install chromium`"),
]

FIGURE = "Share of the output before the first difference"
SHEET_WIDTH_PT = 595
MARGIN_PT = 42


def make_site(folder: Path, *, state: str = "ready") -> Path:
    """Write two pages, with a wide table, a chart in some state, and links of every sort."""
    cells = "".join(f"<td>column{number}</td>" for number in range(40))
    (folder / "data.json").write_text("{}")
    (folder / "one.html").write_text(
        '<link rel="next" title="Second" href="two.html"><article class="bd-article"><section>'
        "<h1>First</h1><a href='two.html#below'>across</a> <a href='data.json'>data</a> "
        "<a href='https://example.org/'>elsewhere</a>"
        f"<table><tr>{cells}</tr></table>"
        f"<p>Paragraph</p><table><tr><td>{'0f' * 200}</td><td>{'sentence ' * 9}</td></tr></table>"
        "</section></article>"
    )
    (folder / "two.html").write_text(
        "<article class='bd-article'><section><h1>Second</h1><a href='#below'>down</a>"
        f"<div class='labkit-chart' data-state='{state}'></div>"
        "<p style='break-before: page' id='below'>Below</p></section></article>"
    )
    return folder / "one.html"


def printed(pages: list[Path], target: Path) -> int:
    """Print in a thread of its own, since other tests may have left a browser open in this one."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(printing.print_pages, pages, target).result()


def text_of(sheet: Any) -> str:
    """Return a sheet's text on one line, its joined letters taken apart."""
    return " ".join(unicodedata.normalize("NFKC", sheet.extract_text()).split())


def links_of(reader: Any, sheet: Any) -> list[int | str | None]:
    """Return where a sheet's links lead: an address, a sheet's index, or nowhere."""
    places = {there.indirect_reference: index for index, there in enumerate(reader.pages)}
    found: list[int | str | None] = []
    for link in sheet.get("/Annots", ()):
        link = link.get_object()
        if "/Dest" in link:
            found.append(places[link["/Dest"][0].get_object().indirect_reference])
        else:
            found.append(link.get("/A", {}).get("/URI"))
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Print the two pages."""
    folder = tmp_path_factory.mktemp("site")
    target = folder / "out" / "small.pdf"
    sheets = printed(printing.pages_in_order(make_site(folder)), target)
    assert [path.name for path in target.parent.iterdir()] == ["small.pdf"]
    reader = pypdf.PdfReader(target)
    assert len(reader.pages) == sheets
    return reader


def test_pages_stand_in_order_with_titles_and_numbers(small: Any) -> None:
    """The outline has each page's title at its first sheet, and each sheet its number."""
    outline = [(item.title, small.get_destination_page_number(item)) for item in small.outline]
    texts = [sheet.extract_text() for sheet in small.pages]

    assert outline == [("First", 0), ("Second", 1)]
    assert [text.split()[-1] for text in texts] == ["1", "2", "3"]


def test_links_lead_within_or_to_the_web(small: Any) -> None:
    """A link to a page leads to its sheet, one to the web stays, and none names this machine."""
    first, second, _ = (links_of(small, sheet) for sheet in small.pages)

    assert first == [2, None, "https://example.org/"]
    assert second == [2]


def test_a_wide_table_is_not_cut(small: Any) -> None:
    """Every column of a table that is wider than the paper stands on the paper."""
    ends: dict[str, float] = {}

    def note(text: str, cm: list[float], tm: list[float], *_: Any) -> None:
        if "column" in text:
            ends[text] = cm[0] * tm[4] + cm[4]

    small.pages[0].extract_text(visitor_text=note)

    assert "column39" in "".join(ends)
    assert max(ends.values()) < SHEET_WIDTH_PT - MARGIN_PT


def test_a_long_digest_takes_no_room_from_words(small: Any) -> None:
    """A table with a digest is as large as the text around it, and its sentences stay broad."""
    sizes: dict[str, float] = {}
    lines: list[str] = []

    def note(text: str, cm: list[float], tm: list[float], _font: Any, size: float) -> None:
        for word in ("Paragraph", "sentence"):
            if word in text:
                sizes[word] = cm[0] * tm[0] * size
                lines.append(text)

    small.pages[0].extract_text(visitor_text=note)

    assert sizes["sentence"] == pytest.approx(sizes["Paragraph"])
    assert max(line.count("sentence") for line in lines) > 1


def test_a_chart_that_is_not_drawn_stops_the_printing(tmp_path: Path) -> None:
    """A page whose chart failed is named, and what was printed before stays."""
    first = make_site(tmp_path, state="error")
    target = tmp_path / "out" / "old.pdf"
    target.parent.mkdir()
    target.write_text("old")

    with pytest.raises(RunError, match=r"two\.html must have every chart drawn; 1 are not"):
        printed(printing.pages_in_order(first), target)

    assert target.read_text() == "old"
    assert [path.name for path in target.parent.iterdir()] == ["old.pdf"]


def test_the_book_is_printed_with_its_figures(tmp_path: Path) -> None:
    """Two pages of the book have their headings in the PDF, and a figure that is really drawn."""
    if not (SITE / FIRST_PAGE).is_file():
        pytest.skip(f"no built site at {SITE}: run `make book` first")
    names = ("intro", "what_the_runtime_decides")
    pages = [p for p in printing.pages_in_order(SITE / FIRST_PAGE) if p.stem in names]
    printed(pages, tmp_path / "two.pdf")
    sheets = pypdf.PdfReader(tmp_path / "two.pdf").pages
    text = " ".join(map(text_of, sheets))
    (drawn,) = [sheet for sheet in sheets if FIGURE in text_of(sheet)]
    curves = drawn.get_contents().get_data().count(b" c\n")

    for page in pages:
        _, _, article = page.read_text("utf-8").partition("<article")
        headings = re.findall(r"<h[12]>(?:<span[^>]*>[^<]*</span>)?([^<]+)", article)
        assert headings
        assert [heading for heading in headings if heading.strip() not in text] == []
    assert curves > 50


def test_what_cannot_be_asked_on_paper_says_so(tmp_path: Path) -> None:
    """The playground prints the requests that the build decided, and the reader says it is one."""
    names = ("playground", "what_the_runtime_decides")
    pages = [SITE / f"book/chapter/{name}.html" for name in names]
    if not all(page.is_file() for page in pages):
        pytest.skip(f"no built site at {SITE}: run `make book` first")
    printed(pages, tmp_path / "two.pdf")
    text = " ".join(map(text_of, pypdf.PdfReader(tmp_path / "two.pdf").pages))
    cases = json.loads(data_file("admission", "cases.json").read_text("utf-8"))

    assert "On paper nothing can be asked" in text
    assert [case["title"] for case in cases if case["title"] not in text] == []
    assert re.search(r"On paper this is one of \d+ differences", text)
    assert "On paper the figure is as it was before anything was chosen" in text


def test_a_term_stands_with_its_meaning(tmp_path: Path) -> None:
    """No sheet of the key terms ends with a term whose meaning is on the next."""
    page = SITE / "book/chapter/key_terms.html"
    if not page.is_file():
        pytest.skip(f"no built site at {SITE}: run `make book` first")
    printed([page], tmp_path / "terms.pdf")
    terms = re.findall(r"<dt id[^>]*>([^<]+)", page.read_text("utf-8"))
    sheets = [text_of(sheet) for sheet in pypdf.PdfReader(tmp_path / "terms.pdf").pages]
    last = [sheet.removesuffix(f" {number}") for number, sheet in enumerate(sheets, start=1)]

    assert len(terms) > 20
    assert [term for term in terms for sheet in last if sheet.endswith(term.strip())] == []


def test_on_the_screen_nothing_speaks_of_paper(browser: Browser, site_url: str) -> None:
    """What is said for paper is not shown on the site."""
    page = browser.new_page()
    page.goto(f"{site_url}/book/chapter/playground.html", wait_until="load")
    hint = page.locator(".labkit-on-paper")

    assert hint.count() == 1
    assert not hint.is_visible()

    page.emulate_media(media="print")
    assert hint.is_visible()
    page.close()


def test_every_page_of_the_book_is_printed() -> None:
    """The order of printing reaches each page of the contents once."""
    if not (SITE / FIRST_PAGE).is_file():
        pytest.skip(f"no built site at {SITE}: run `make book` first")
    printed = {
        path.relative_to(SITE).as_posix() for path in printing.pages_in_order(SITE / FIRST_PAGE)
    }
    written = {path.relative_to(SITE).as_posix() for path in (SITE / "book").rglob("*.html")}

    assert printed == written
