"""The lab's texts are spelt rightly, the British way.

Two word lists decide. pyspellchecker's English dictionary is American, so codespell's table of
British spellings turns it British, and codespell's misspellings are taken from it, since some of
them pass for rare words. What is left over must stand in `cases/words.txt`: terms and names of the
field, a name as it is written. Code is searched for common misspellings only, as its names are no
words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

import codespell_lib
import pytest
from spellchecker import SpellChecker
from support import CASES, ROOT
from test_book_prose import prose_of
from test_text import NOTEBOOKS, PROSE, text_of

LISTED = (CASES / "words.txt").read_text(encoding="utf-8").splitlines()
CODE = ["labkit", ".ci", "Makefile", "_config.yml", "pyproject.toml", "book/examples"]
# Slips that probes and rules are asked about; each must be there, or it leaves this list.
MEANT = ("temprature",)
# American spellings that are British as well: of a noun, of a computer's, and of a router's work.
BOTH = frozenset({"practice", "program", "routing"})
_WORD = re.compile(r"[^\W\d_]+(?:[’'][^\W\d_]+)*")
_CODESPELL = Path(codespell_lib.__file__).with_name("data")


def table(name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each spelling of a table of codespell's, with the words that it stands for."""
    for line in (_CODESPELL / name).read_text(encoding="utf-8").lower().splitlines():
        spelling, _, words = line.partition("->")
        yield spelling, [word.strip() for word in words.split(",") if word.strip()]


@cache
def dictionary() -> frozenset[str]:
    """Return the words of English, in lower case and spelt the British way."""
    words = set(SpellChecker(language="en").word_frequency.words())
    for british, american in table("dictionary_en-GB_to_en-US.txt"):
        words.add(british)
        words.difference_update(set(american) - BOTH)
    for name in ("dictionary.txt", "dictionary_rare.txt"):
        words.difference_update(spelling for spelling, _ in table(name))
    return frozenset(words)


def unknown_words(text: str, listed: Set[str] = frozenset()) -> set[str]:
    """Return the words of a page's prose that neither the dictionary nor a list has."""
    words = {word.replace("’", "'").removesuffix("'s") for word in _WORD.findall(prose_of(text))}
    return {
        word
        for word in words
        if word.lower() not in dictionary() and not listed & {word, word[0].lower() + word[1:]}
    }


@pytest.mark.parametrize("path", [*PROSE, *NOTEBOOKS], ids=lambda path: path.name)
def test_each_word_is_spelt_rightly(path: Path) -> None:
    """Each word of a text is in the dictionary or on the lab's list."""
    assert unknown_words(text_of(path), frozenset(LISTED)) == set()


def test_the_list_has_only_what_is_needed() -> None:
    """Each word of the list stands in some text, is no word of the dictionary, and is sorted in."""
    needed = set().union(*(unknown_words(text_of(path)) for path in [*PROSE, *NOTEBOOKS]))
    spelt = needed | {word[0].lower() + word[1:] for word in needed}

    assert [word for word in LISTED if word not in spelt] == []
    assert sorted(set(LISTED), key=lambda word: (word.lower(), word)) == LISTED


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("We recieve teh results.", {"recieve", "teh"}, id="misspelt"),
        pytest.param("Its colour is quantised.", {"quantised"}, id="term"),
        pytest.param("A color, a behavior.", {"color", "behavior"}, id="American"),
        pytest.param("The run’s licence, the runs' colours.", set(), id="British"),
        pytest.param("An absorbant calender.", {"absorbant", "calender"}, id="taken for rare"),
        pytest.param("A PyTorch, a Pytorch.", {"Pytorch"}, id="name"),
        pytest.param("Runtime or runtime.", set(), id="listed"),
        pytest.param("Call `recieve` in $teh$.\n```sh\nlenght\n```", set(), id="code"),
    ],
)
def test_a_misspelt_word_is_found(text: str, found: set[str]) -> None:
    """Misspelt, American and unlisted words are found; British ones, names and code are not."""
    assert unknown_words(text, frozenset({"PyTorch", "runtime"})) == found


def misspelt(capsys: pytest.CaptureFixture[str], *paths: Path) -> list[str]:
    """Return what codespell says of the common misspellings in files and folders."""
    codespell_lib.main("--check-hidden", f"--ignore-words-list={','.join(MEANT)}", *map(str, paths))
    return capsys.readouterr().out.splitlines()


def test_no_docstring_or_message_is_misspelt(capsys: pytest.CaptureFixture[str]) -> None:
    """No source, setting or example has a common misspelling, but for those that are meant."""
    assert misspelt(capsys, *(ROOT / name for name in CODE)) == []


def test_a_misspelt_docstring_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelling in a docstring and one in a message are found, in a hidden folder too."""
    (tmp_path / ".hidden").mkdir()
    source = tmp_path / ".hidden" / "planted.py"
    source.write_text('"""Seperate the two."""\n\nMESSAGE = f"the lenght of {source!r}"\n')
    said = misspelt(capsys, tmp_path / ".hidden")

    assert [line.rpartition(": ")[2] for line in said] == [
        "Seperate ==> Separate",
        "lenght ==> length",
    ]


def test_each_slip_that_is_meant_is_there() -> None:
    """No misspelling is let pass that no source asks about."""
    sources = " ".join(path.read_text("utf-8") for path in (ROOT / "labkit").rglob("*.py"))

    assert [slip for slip in MEANT if slip not in sources] == []
