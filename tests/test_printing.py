"""The order of the pages that are printed, and what printing needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.book import printing
from labkit.errors import RunError


def page(folder: Path, name: str, following: str | None) -> Path:
    """Write a page that names the one that follows it."""
    link = f'<link rel="next" title="The next" href="{following}" />' if following else ""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<head>{link}</head>", encoding="utf-8")
    return path.resolve()


def test_pages_follow_one_another(tmp_path: Path) -> None:
    """The order is that of the pages' own links, over folders and odd names."""
    first = page(tmp_path, "intro.html", "chapter/a%20b.html")
    second = page(tmp_path, "chapter/a b.html", "../run/one.html")
    third = page(tmp_path, "run/one.html", None)

    assert printing.pages_in_order(first) == [first, second, third]


def test_a_circle_of_pages_ends(tmp_path: Path) -> None:
    """Pages that lead back to the first are printed once."""
    first = page(tmp_path, "one.html", "two.html")
    second = page(tmp_path, "two.html", "one.html")

    assert printing.pages_in_order(first) == [first, second]


def test_a_missing_page_is_named(tmp_path: Path) -> None:
    """A site that lacks a page it leads to cannot be printed."""
    first = page(tmp_path, "one.html", "two.html")

    with pytest.raises(RunError, match=r"must have .*two\.html; it does not"):
        printing.pages_in_order(first)


def test_without_a_chromium_the_message_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without a browser is told what to install, and nothing is written."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    target = tmp_path / "out" / "chapter.pdf"

    with pytest.raises(RunError, match="apt-get install chromium"):
        printing.print_pages([page(tmp_path, "one.html", None)], target)

    assert list(target.parent.iterdir()) == []
