"""The check for accessibility finds what is planted, and leaves out no more than it lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from accessibility import EXCLUDED, Excluded, faults

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

PAGE = "book/intro.html"


@pytest.fixture
def page(browser: Browser, site_url: str) -> Iterator[Page]:
    """Open a page of the built site."""
    page = browser.new_page()
    page.goto(f"{site_url}/{PAGE}")
    yield page
    page.close()


@pytest.mark.parametrize(
    ("rule", "planted"),
    [
        pytest.param("image-alt", "<img src='logo.svg'>", id="image-without-words"),
        pytest.param("color-contrast", "<p style='color: #ccc'>Pale</p>", id="pale-text"),
        pytest.param(
            "color-contrast",
            "<details><summary>More</summary><p style='color: #ccc'>Pale</p></details>",
            id="pale-text-in-a-fold",
        ),
        pytest.param(
            "color-contrast",
            "<p style='color: #ccc; background: linear-gradient(#fff, #fff)'>Pale</p>",
            id="pale-text-on-a-shadow",
        ),
        pytest.param("button-name", "<button></button>", id="button-without-a-name"),
        pytest.param("select-name", "<select><option>a</option></select>", id="choice-of-what"),
        pytest.param("empty-table-header", "<table><tr><th></th></tr></table>", id="empty-header"),
    ],
)
def test_a_planted_fault_is_found(page: Page, rule: str, planted: str) -> None:
    """A fault put into a page that has none is found, by its rule and alone."""
    page.evaluate("html => document.querySelector('.bd-article').innerHTML += html", planted)

    assert [fault.partition(":")[0] for fault in faults(page)] == [rule]


def test_one_rule_of_a_part_is_left_out_and_no_other(page: Page) -> None:
    """The part with a listed fault is still held to every other rule."""
    page.evaluate("document.querySelector('.logo__title').style.color = '#ddd'")

    assert [fault.partition(":")[0] for fault in faults(page)] == ["color-contrast"]


@pytest.mark.parametrize("excluded", EXCLUDED, ids=lambda item: f"{item.rule} {item.selector}")
def test_a_listed_fault_is_still_there(page: Page, excluded: Excluded) -> None:
    """Without its entry in the list, the fault is found; with it, the page has none."""
    others = tuple(item for item in EXCLUDED if item != excluded)

    assert {fault.partition(":")[0] for fault in faults(page, excluded=others)} == {excluded.rule}
    assert faults(page) == []
