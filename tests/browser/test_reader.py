"""The divergence reader, on a page of its own with made-up differences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from labkit.figures import reader

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

STATIC = Path(__file__).resolve().parents[2] / "book/_static"
RUNS = [
    ("int4", "p01", " red", " blue", " sky."),
    ("int4", "p02", " red", " green", None),
    ("window", "p02", " red", "<b>", " end."),
]


def section() -> dict[str, object]:
    """Make differences of two options on two prompts."""
    runs = [
        {
            "knob": knob,
            "kind": "model",
            "prompt": prompt,
            "first_divergence": 3,
            "margin_at_divergence": 0.25,
            "rank": 2,
            "baseline_token": base,
            "variant_token": other,
            "context": {
                "before": "It is",
                "baseline_after": " wine.",
                "variant_after": after,
                "candidates": [
                    {"token": base, "baseline": 7.25, "variant": 6.5},
                    {"token": other, "baseline": 7.0, "variant": 7.5},
                ],
            },
        }
        for knob, prompt, base, other, after in RUNS
    ]
    return {"runs": runs, "rows": [{"knob": "int4", "label": "int4 weights"}, {"knob": "window"}]}


def test_the_reader_shows_the_chosen_difference(browser: Browser) -> None:
    """Option and prompt choose; both texts mark their token, and each side's best is marked."""
    script = (STATIC / reader.SCRIPT).read_text(encoding="utf-8")
    page = browser.new_page()
    page.set_content(f"{reader.render({'preservation': section()})}<script>{script}</script>")
    marks = page.locator("mark")
    first = marks.all_text_contents()
    page.locator("select[name=prompt]").select_option("p02")
    note = page.locator(".labkit-reader-note").text_content()
    page.locator("select[name=option]").select_option("window")
    second = marks.all_text_contents()
    texts = page.locator(".labkit-reader-text").all_text_contents()
    best = page.locator("strong").all_text_contents()
    page.close()

    assert first == [" red", " blue"]
    assert "did not come to the same difference" in (note or "")
    assert second == [" red", "<b>"]
    assert texts == ["It is red wine.", "It is<b> end."]
    assert best == ["7.250", "7.500"]
