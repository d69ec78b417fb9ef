"""The whole chapter as one PDF: each page of the built site printed by a browser, then joined.

The browser is a Chromium of the machine, told to draw for paper in light colours. It reads the
site from its folder, so nothing has to be served.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urlsplit

from labkit.errors import RunError
from labkit.files import shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from pypdf import PdfWriter

Say = Callable[[str], None]

_CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_PAPER_MM = (210, 297)
_MARGINS_MM = (17, 15)  # above and below, left and right
_PX_PER_MM = 96 / 25.4
_PATIENCE_MS = 60_000
_FONT = "/LabNumber"
_NEXT = re.compile(r'<link rel="next"[^>]*\bhref="([^"]+)"')
# On paper nothing can be opened: what stands in for a widget is.
_OPEN = """() => {
  for (const part of document.querySelectorAll(".labkit-playground + details")) part.open = true;
}"""
_TRIED = "() => !document.querySelector(\".labkit-chart[data-state='waiting']\")"
_NOT_DRAWN = "() => document.querySelectorAll(\".labkit-chart:not([data-state='ready'])\").length"
# A digest or the like may break, so that it takes no room from its neighbours, and a sentence keeps
# some. What is wider than the paper then is made smaller as a whole: cut, it could not be read.
_FIT = """() => {
  for (const cell of document.querySelectorAll(".bd-article :is(th, td)")) {
    const text = cell.textContent.trim();
    const breaks = /\\S{30}/.test(text);
    if (breaks) cell.style.overflowWrap = "anywhere";
    if (breaks || text.length > 60) cell.style.minWidth = breaks ? "9em" : "12em";
  }
  for (const part of document.querySelectorAll(".bd-article table, .labkit-chart-view")) {
    const room = part.closest("section, article").clientWidth;
    const share = room / Math.max(part.scrollWidth, part.getBoundingClientRect().width);
    if (share < 1) part.style.zoom = Math.max(share * 0.99, 0.3);
  }
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A page of the site on paper.

    Attributes:
        page: The page's file.
        title: Its title.
        pdf: What was printed of it.
    """

    page: Path
    title: str
    pdf: Path


def pages_in_order(first: Path) -> list[Path]:
    """Return the pages of a built site as they follow one another, from the first one on.

    Raises:
        RunError: If there is no such page, or one that it leads to.
    """
    pages: list[Path] = []
    page: Path | None = first.resolve()
    while page is not None and page not in pages:
        if not page.is_file():
            raise RunError(f"A site must have {shown(page)}; it does not. Call `labkit book`.")
        pages.append(page)
        link = _NEXT.search(page.read_text(encoding="utf-8"))
        page = (page.parent / unquote(link[1])).resolve() if link else None
    return pages


def print_pages(pages: Sequence[Path], target: Path, *, say: Say = lambda _: None) -> int:
    """Print pages of a built site into one PDF, with their titles as its outline.

    Args:
        pages: The pages' files, in order.
        target: The PDF; it is replaced when all of it is there.
        say: Receives a line a page.

    Returns:
        The number of sheets.

    Raises:
        RunError: If there is no Chromium, a chart is not drawn, or the file cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".print-") as scratch:
            printed = list(_print(pages, Path(scratch), say))
            whole = _join(printed)
            unfinished = Path(scratch) / "whole.pdf"
            whole.write(unfinished)
            unfinished.replace(target)
    except OSError as error:
        raise RunError(
            f"{shown(target)} must be writable; got: {error.strerror or error}."
        ) from error
    return len(whole.pages)


def _print(pages: Sequence[Path], scratch: Path, say: Say) -> Iterator[Printed]:
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=_chromium(), args=_FLAGS)
        except Error as error:
            raise RunError(f"Chromium must start; it did not: {error.message}") from error
        sheet = _sheet(browser)
        for number, page in enumerate(pages):
            say(f"pdf: {page.stem} ({number + 1} of {len(pages)})")
            try:
                yield _print_page(sheet, page, scratch / f"{number:03}.pdf")
            except Error as error:
                raise RunError(f"{shown(page)} must print; it did not: {error.message}") from error
        browser.close()


def _chromium() -> str:
    found = next(filter(None, map(shutil.which, _CHROMIUMS)), None)
    if found is None:
        raise RunError(
            f"A PDF must be printed by a Chromium; none of {', '.join(_CHROMIUMS)} is on PATH. "
            "Install one, on Debian with `apt-get install chromium`."
        )
    return found


def _sheet(browser: Browser) -> Page:
    """Return a window as wide as what is printed, so that charts are drawn to fit."""
    width, height = (
        round((paper - 2 * margin) * _PX_PER_MM)
        for paper, margin in zip(_PAPER_MM, reversed(_MARGINS_MM), strict=True)
    )
    window = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
    window.set_default_timeout(_PATIENCE_MS)
    page = window.new_page()
    page.emulate_media(media="print")
    return page


def _print_page(sheet: Page, page: Path, pdf: Path) -> Printed:
    sheet.goto(page.as_uri(), wait_until="load")
    sheet.wait_for_function(_TRIED)
    if missing := sheet.evaluate(_NOT_DRAWN):
        raise RunError(f"{shown(page)} must have every chart drawn; {missing} are not.")
    sheet.evaluate(_OPEN)
    sheet.evaluate(_FIT)
    above, beside = (f"{margin}mm" for margin in _MARGINS_MM)
    sheet.pdf(
        path=pdf,
        format="A4",
        margin={"top": above, "bottom": above, "left": beside, "right": beside},
        print_background=True,
        tagged=True,
    )
    return Printed(page=page, title=sheet.locator("h1").last.inner_text(), pdf=pdf)


def _join(printed: Sequence[Printed]) -> PdfWriter:
    from pypdf import PdfReader, PdfWriter

    whole = PdfWriter()
    places: dict[str, tuple[int, float | None]] = {}
    for part in printed:
        reader = PdfReader(part.pdf)
        first, home = len(whole.pages), part.page.as_uri()
        places[home] = (first, None)
        for name, there in reader.named_destinations.items():
            sheet = reader.get_destination_page_number(there)
            if sheet is not None:
                places[f"{home}#{name.lstrip('/')}"] = (first + sheet, there.top)
        _name_in_full(reader, home)
        whole.append(reader, outline_item=part.title, import_outline=False)
    _lead_within(whole, places)
    _number(whole)
    return whole


def _links(pages: Any) -> Iterator[Any]:
    for page in pages:
        for link in page.get("/Annots", ()):
            if link.get_object().get("/Subtype") == "/Link":
                yield link.get_object()


def _name_in_full(reader: Any, home: str) -> None:
    """Write a link within a page as one to that page's address: joined, names would clash."""
    from pypdf.generic import DictionaryObject, NameObject, TextStringObject

    for link in _links(reader.pages):
        if (name := link.pop("/Dest", None)) is not None:
            address = f"{home}#{str(name).lstrip('/')}"
            link[NameObject("/A")] = DictionaryObject(
                {
                    NameObject("/S"): NameObject("/URI"),
                    NameObject("/URI"): TextStringObject(address),
                }
            )


def _lead_within(whole: PdfWriter, places: dict[str, tuple[int, float | None]]) -> None:
    """Let links to the site's pages lead to their sheets, and drop those to its other files."""
    from pypdf.generic import ArrayObject, FloatObject, NameObject, NullObject

    for link in list(_links(whole.pages)):
        address = str(link.get("/A", {}).get("/URI", ""))
        if urlsplit(address).scheme != "file":
            continue
        del link["/A"]
        place = places.get(address) or places.get(urldefrag(address).url)
        if place is None:
            continue
        sheet, top = place
        reference = whole.pages[sheet].indirect_reference
        at = NullObject() if top is None else FloatObject(top)
        link[NameObject("/Dest")] = ArrayObject(
            [reference, NameObject("/XYZ"), NullObject(), at, NullObject()]
        )


def _number(whole: PdfWriter) -> None:
    """Write each sheet's number at its foot; the browser printed the pages one by one."""
    from pypdf.generic import ArrayObject, DictionaryObject, NameObject, StreamObject

    face = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = DictionaryObject({NameObject(key): NameObject(name) for key, name in face.items()})
    for number, sheet in enumerate(whole.pages, start=1):
        resources: Any = sheet["/Resources"].get_object()
        fonts = resources.setdefault(NameObject("/Font"), DictionaryObject())
        fonts.get_object()[NameObject(_FONT)] = font
        # What was printed may leave its scale in force, so it is put between q and Q.
        before, after = StreamObject(), StreamObject()
        before.set_data(b"q\n")
        middle_pt = float(sheet.mediabox.width) / 2
        after.set_data(f"\nQ BT {_FONT} 8 Tf {middle_pt - 4:.0f} 24 Td ({number}) Tj ET\n".encode())
        printed = sheet.get("/Contents")
        parts = printed.get_object() if printed is not None else ArrayObject()
        parts = (
            parts if isinstance(parts, ArrayObject) else ArrayObject([sheet.raw_get("/Contents")])
        )
        sheet[NameObject("/Contents")] = ArrayObject(
            [whole._add_object(before), *parts, whole._add_object(after)]
        )
