"""The live figures answer: pointing, picking, framing, sliding, with mouse and keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from built_site import SITE
from test_pages import DESKTOP, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser

RUNTIME = "book/chapter/what_the_runtime_decides.html"
_FADED = 0.1


@pytest.fixture
def page(browser: Browser, site_url: str) -> Iterator[Page]:
    """Open the page with the boundary and the margins."""
    if not (SITE / RUNTIME).is_file():
        pytest.skip(f"the built site has no {RUNTIME}: build it with `labkit book`")
    with opened(browser, f"{site_url}/{RUNTIME}", viewport=DESKTOP, scheme="light") as (page, seen):
        yield page
    assert seen.errors == []


def boundary_of(page: Page) -> Locator:
    """Return the figure of the runs."""
    return page.get_by_label("Scatter chart, one mark a run")


def margins_of(page: Page) -> Locator:
    """Return the figure of the margins."""
    return page.get_by_label("Histogram of the baseline's margin")


def clear_marks(figure: Locator, shape: str) -> int:
    """Count the marks of a shape that are not faded."""
    script = f"marks => marks.filter(m => Number(m.getAttribute('opacity') ?? 1) > {_FADED}).length"
    return int(figure.locator(f".mark-{shape}.role-mark path").evaluate_all(script))


def wait_for_clear(page: Page, figure: Locator, shape: str, number: int) -> None:
    """Wait until so many marks of a shape are not faded."""
    for _ in range(100):
        if clear_marks(figure, shape) == number:
            return
        page.wait_for_timeout(50)
    assert clear_marks(figure, shape) == number


def rows_behind(page: Page, **wanted: str) -> int:
    """Count the rows with such cells in the table behind the boundary."""
    table = page.locator(".labkit-table table").first
    head = table.locator("th").all_text_contents()
    rows = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return sum(all(row[head.index(key)] == value for key, value in wanted.items()) for row in rows)


def test_a_kind_is_picked_from_the_keyboard_in_every_figure(page: Page) -> None:
    """A legend's name takes the focus; Enter fades the other kinds in both figures of the page."""
    ticks = clear_marks(margins_of(page), "rect")
    boundary_of(page).get_by_role("button", name="Show only runtime").press("Enter")
    wait_for_clear(page, boundary_of(page), "symbol", rows_behind(page, kind="runtime"))
    page.wait_for_timeout(200)

    assert clear_marks(margins_of(page), "rect") < ticks


def test_an_option_is_picked_by_its_bar_or_in_the_list(page: Page) -> None:
    """Clicking a bar leaves that option's marks, and choosing in the list leaves the chosen's."""
    figure = boundary_of(page)
    figure.locator(".options_marks path").first.click(force=True)
    names = figure.locator("select option").all_text_contents()
    page.wait_for_function("document.querySelector('.vega-bind select').selectedIndex > 0")
    picked = names[figure.locator("select").evaluate("select => select.selectedIndex")]
    wait_for_clear(page, figure, "symbol", rows_behind(page, option=picked))
    other = next(name for name in reversed(names) if name != picked)
    figure.locator("select").select_option(label=other)
    wait_for_clear(page, figure, "symbol", rows_behind(page, option=other))


def test_a_frame_over_marks_is_counted_below(page: Page) -> None:
    """Dragging a frame over the left half leaves only runs that diverged in the bars."""
    figure = boundary_of(page)
    bars = figure.locator(".options_marks path")
    before = bars.count()
    drag(page, figure)
    for _ in range(100):
        if bars.count() < before:
            break
        page.wait_for_timeout(50)

    assert 0 < bars.count() < before


def drag(page: Page, figure: Locator) -> None:
    """Drag a frame from the plot's middle to its upper left corner."""
    figure.scroll_into_view_if_needed()
    box = figure.locator(".runs_group .background").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] - 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 40, steps=4)
    page.mouse.move(box["x"] + 2, box["y"] + 2, steps=4)
    page.mouse.up()


def test_what_stands_upwards_is_chosen(page: Page) -> None:
    """Choosing the rounding ratio moves the marks."""
    figure = boundary_of(page)
    marks = figure.locator(".mark-symbol.role-mark path")
    before = marks.evaluate_all("marks => marks.map(m => m.getAttribute('transform'))")
    figure.get_by_label("rounding ratio", exact=True).check()
    page.wait_for_timeout(300)
    after = marks.evaluate_all("marks => marks.map(m => m.getAttribute('transform'))")

    assert len(after) == len(before)
    assert after != before


def near_ties(figure: Locator) -> tuple[int, int]:
    """Return what the figure of margins counts: near-ties and steps."""
    text = figure.locator("text", has_text="steps are near-ties").text_content() or ""
    found = re.match(r"(\d+) of (\d+) steps", text)
    assert found, text
    return int(found[1]), int(found[2])


def test_the_slider_recounts_near_ties(page: Page) -> None:
    """From the keyboard, End counts more steps as near-ties than Home, which leaves exact ties."""
    figure = margins_of(page)
    slider = figure.locator("input[type=range]")
    first, steps = near_ties(figure)
    slider.press("End")
    page.wait_for_timeout(200)
    most, _ = near_ties(figure)
    slider.press("Home")
    page.wait_for_timeout(200)
    fewest, same = near_ties(figure)

    assert fewest < first < most < steps
    assert same == steps


def test_a_choice_outlives_the_theme(page: Page) -> None:
    """What was picked is still picked after the page turned dark."""
    figure = boundary_of(page)
    figure.get_by_role("button", name="Show only model").click(force=True)
    wait_for_clear(page, figure, "symbol", rows_behind(page, kind="model"))
    label = figure.locator(".role-axis-label text").first
    before = label.get_attribute("fill")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_function(
        f"document.querySelector('.role-axis-label text').getAttribute('fill') !== '{before}'"
    )
    wait_for_clear(page, figure, "symbol", rows_behind(page, kind="model"))
