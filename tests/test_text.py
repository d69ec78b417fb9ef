"""What the lab's texts must be free of, and what every page and picture has."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from support import ROOT, read_cases
from test_book_prose import prose_of, typed_numbers

CHAPTER = sorted((ROOT / "book/chapter").glob("*.md"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PROSE = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "book/intro.md")),
    ROOT / "book/references.md",
    *CHAPTER,
]
# Pages that look something up, and answer no question of their own.
WITHOUT_LIMITS = {"exercises", "key_terms", "what_the_numbers_do_not_show", "playground"}
ALLOWED_IN_NOTEBOOKS = read_cases("notebook_typed_numbers.json")
LARGEST_BYTES = 500_000
LARGER = {  # what is allowed to be larger, and how large
    "data/verdicts/verdicts.json": 2_000_000,
    "requirements.lock": 600_000,
}
_LEFT_OVER = re.compile(
    r"\b(?:TODO|FIXME|XXX+|TBD|HACK)\b|(?i:\b(?:lorem|ipsum|asdf)\b)|^(?:<{7}|={7}|>{7})",
    re.MULTILINE,
)
_TWICE = re.compile(r"\b([a-z]+) \1\b")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(|^```\{(?:figure|image)\}.*?^```", re.DOTALL | re.MULTILINE)


def tracked() -> list[Path]:
    """Return the files that belong to the lab, but for published runs, which are made."""
    done = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("no git here, so that no list of the lab's files is at hand")
    names = [name for name in done.stdout.splitlines() if not name.startswith("results/")]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def text_of(path: Path) -> str:
    """Return a page's text, or the prose of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def left_over(text: str) -> list[str]:
    """Return what somebody meant to come back to."""
    return [match[0] for match in _LEFT_OVER.finditer(text)]


def said_twice(text: str) -> list[str]:
    """Return words that stand twice in a row."""
    return [m[0] for m in _TWICE.finditer(prose_of(text)) if m[1] not in ("that", "had")]


def without_words(text: str) -> list[str]:
    """Return the pictures of a page that no text describes."""
    return [
        match[0].splitlines()[0]
        for match in _PICTURE.finditer(text)
        if not (match[1] or "").strip() and ":alt:" not in match[0]
    ]


@pytest.mark.parametrize("path", [*PROSE, *NOTEBOOKS], ids=lambda path: path.name)
def test_a_text_is_finished(path: Path) -> None:
    """No text of the lab has a note to its author in it, or a word twice in a row."""
    assert left_over(text_of(path)) == []
    assert said_twice(text_of(path)) == []


def test_no_source_has_left_over_text() -> None:
    """No file of the package, its data or its settings has a note to its author in it."""
    files = [
        path
        for path in tracked()
        if path.suffix in (".py", ".yml", ".toml", ".css", ".js", ".md")
        and path.name not in ("test_text.py", "requirements.lock")
    ]
    found = {path.name: left_over(path.read_text(encoding="utf-8")) for path in files}

    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("check", "text", "found"),
    [
        (left_over, "TODO: say why. Lorem ipsum.", ["TODO", "Lorem", "ipsum"]),
        (left_over, "A method of todos and hacks.", []),
        (said_twice, "It is is so, and that that is.", ["is is"]),
        (said_twice, "Call `is is` again.", []),
        (without_words, "![](a.png) and ![A line](b.png)", ["![]("]),
        (without_words, "```{figure} a.png\n:alt: A line.\n```", []),
        (without_words, "```{figure} a.png\nA line.\n```", ["```{figure} a.png"]),
    ],
)
def test_each_check_can_fail(check: object, text: str, found: list[str]) -> None:
    """Each check of a text finds what it is for, and nothing else."""
    assert check(text) == found  # type: ignore[operator]  # one of the three above


@pytest.mark.parametrize("path", [*PROSE, *NOTEBOOKS], ids=lambda path: path.name)
def test_a_picture_has_words(path: Path) -> None:
    """Each picture of a page or notebook has a text in its place."""
    assert without_words(text_of(path)) == []


@pytest.mark.parametrize("path", CHAPTER, ids=lambda path: path.stem)
def test_a_page_asks_answers_and_says_its_limits(path: Path) -> None:
    """A page begins with its question and answer, and ends with its limits and a summary."""
    text = text_of(path)
    parts = ["**The question.**", "**The answer.**", "\n## "]
    if path.stem not in WITHOUT_LIMITS:
        parts.append("\n## What it does not show\n")
    parts.append("\n## Summary\n")
    places = [text.find(part) for part in parts]

    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_types_no_measured_number(path: Path) -> None:
    """Numbers in a notebook's prose that look measured are on the list, each with a reason."""
    allowed = {case["number"] for case in ALLOWED_IN_NOTEBOOKS if case["notebook"] == path.stem}

    assert typed_numbers(text_of(path)) == allowed


def test_no_file_is_large() -> None:
    """No file is beyond the limit, but for those that have one of their own."""
    sizes = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in tracked()}
    large = {n: size for n, size in sizes.items() if size > LARGER.get(n, LARGEST_BYTES)}

    assert large == {}
