"""What axe-core finds wrong with a page, less what only the theme's authors can mend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from axe_playwright_python.sync_playwright import Axe

if TYPE_CHECKING:
    from playwright.sync_api import Page

# What is folded away is judged as well. The rows of a table are alike, and so are the marks of a
# chart: a few stand for all, since axe takes seconds over thousands. A shadow behind a text, which
# our boxes have where they scroll, would keep axe from judging its contrast.
_PREPARE = """() => {
    document.querySelectorAll('details').forEach(fold => fold.open = true);
    document.querySelectorAll('.bd-article :is(tbody, svg g)').forEach(group => {
        while (group.children.length > 6) group.lastElementChild.remove();
    });
    document.querySelectorAll('.bd-article *').forEach(e => e.style.backgroundImage = 'none');
}"""

# To read styles anew, axe would ask the site for files that are not where it looks.
_OPTIONS = {"resultTypes": ["violations"], "preload": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A fault of the theme: one rule, the one part that breaks it, and why it stays."""

    rule: str
    selector: str
    reason: str


EXCLUDED = (
    Excluded(
        rule="region",
        selector=".navbar-brand > p.logo__title",
        reason="the theme puts the book's name above its landmarks, in the sidebar; it is the text "
        "of a link to the first page, which the navigation below it names as well",
    ),
)


def faults(page: Page, *, excluded: tuple[Excluded, ...] = EXCLUDED) -> list[str]:
    """Return what axe finds on a page: the rule, the part and what is wrong, a line a part.

    The page is changed by it: folds are opened, and long tables and charts are cut.
    """
    page.evaluate(_PREPARE)
    found = Axe().run(page, options=_OPTIONS).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:120]}: {' '.join(node['failureSummary'].split())}"
        for rule in found
        for node in rule["nodes"]
        if not any(_covers(item, page, rule["id"], node["target"]) for item in excluded)
    ]


def _covers(item: Excluded, page: Page, rule: str, target: list[str]) -> bool:
    if item.rule != rule:
        return False
    return page.locator(target[0]).first.evaluate("(e, s) => e.matches(s)", item.selector)
