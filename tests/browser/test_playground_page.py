"""The admission playground in a browser: the lab's own rules, started and asked there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from built_site import ROOT, SITE
from test_pages import DESKTOP, opened

from labkit import playground, pyodide

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

PAGE = "book/chapter/playground.html"
START_WITHIN_MS = 60_000  # a few seconds; two cores may be busy
CASES = json.loads((ROOT / "data/admission/cases.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(browser: Browser, site_url: str) -> Iterator[Page]:
    """Open the page and start the rules from the keyboard."""
    if not (SITE / PAGE).is_file():
        pytest.skip(f"the built site has no {PAGE}: build it with `labkit book`")
    if not (SITE / "_static/pyodide").is_dir():
        pytest.skip(f"the book was built without Pyodide. {pyodide.REMEDY}")
    with opened(browser, f"{site_url}/{PAGE}", viewport=DESKTOP, scheme="light") as (page, seen):
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.locator(".labkit-playground-start").press("Enter")
        page.wait_for_selector(
            ".labkit-playground[data-answered='1']", timeout=START_WITHIN_MS, state="attached"
        )
        yield page
        assert any(url.endswith("pyodide.asm.wasm") for url in asked)
        assert (seen.external, seen.errors, seen.failed) == ([], [], [])


def settle(page: Page) -> str:
    """Wait for the answer to what was just changed, and return the line that sums it up."""
    page.wait_for_selector(".labkit-playground:not([data-answered=''])", state="attached")
    return page.locator(".labkit-playground-summary").inner_text()


def test_the_page_decides_as_the_package_does(page: Page) -> None:
    """Each case gets in the browser, word for word, the answer that this Python gives."""
    differing = []
    for number, case in enumerate(CASES):
        page.locator("#labkit-case").select_option(str(number))
        summary = settle(page)
        texts = page.locator("[data-text]").evaluate_all(
            "areas => Object.fromEntries(areas.map(area => [area.dataset.text, area.value]))"
        )
        here = json.loads(
            playground.answer(
                texts["config"], texts["Request"], texts["RuntimeFacts"], case["spec"]
            )
        )
        shown = page.locator(".labkit-playground-json pre").text_content() or ""
        if (summary, json.loads(shown)) != (here["summary"], here["decision"]):
            differing.append(case["case"])

    assert differing == []


def test_a_field_changes_the_json_and_the_decision(page: Page) -> None:
    """A shorter prompt, typed into the form, stands in the JSON and fits."""
    page.locator("#labkit-case").select_option(
        label="1200 tokens for gpt2, and a temperature without sampling"
    )
    before = settle(page)
    page.get_by_label("prompt tokens", exact=True).fill("100")
    settle(page)
    page.get_by_label("temperature", exact=True).fill("")
    after = settle(page)
    request = json.loads(page.get_by_label("The request as JSON").input_value())

    assert before.startswith("Rejected")
    assert after.startswith(("Accepted", "Admitted"))
    assert request == {"prompt_tokens": 100, "max_new_tokens": 8}


def test_json_is_read_back_or_refused_by_name(page: Page) -> None:
    """JSON fills the form; a misspelt field is refused by its name; broken JSON rests the form."""
    editor = page.get_by_label("The request as JSON")
    editor.fill('{"prompt_tokens": 7, "max_new_tokens": 1, "dtype": "float32"}')
    settle(page)
    dtype = page.get_by_label("dtype", exact=True).input_value()
    editor.fill('{"prompt_tokens": 7, "temprature": 1}')
    refused = settle(page)
    reasons = page.locator(".labkit-playground-reasons").inner_text()
    editor.fill("{")
    settle(page)
    resting = page.get_by_label("dtype", exact=True).is_disabled()
    editor.fill("{}")
    settle(page)

    assert dtype == "float32"
    assert refused.startswith("Not decided")
    assert "temprature (unknown; did you mean temperature?)" in reasons
    assert resting
    assert page.get_by_label("dtype", exact=True).is_enabled()
