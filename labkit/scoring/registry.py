"""What an extractor is, and how one is registered."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.errors import OutputsError
from labkit.scoring.normalisation import same_answer


class NotJudged(Exception):
    """A candidate was found, and whether it is right could not be decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something in an output that may be its answer.

    Attributes:
        text: As it is shown.
        value: What the extractor's judge needs beside the text.
    """

    text: str
    value: Any = None


Find = Callable[[str], Sequence[str | Candidate]]
Judge = Callable[[Candidate, str], bool]


def same_text(candidate: Candidate, reference: str) -> bool:
    """Judge by `labkit.scoring.normalisation`."""
    return same_answer(candidate.text, reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extractor:
    """A named, versioned rule from text to answer.

    Of several candidates the last counts; without one the answer is missing, which is not right.

    Attributes:
        name: Its name on the command line.
        version: Raised whenever the rule gives another answer for any text.
        rule: The rule in a sentence.
        find: Returns the candidates of a text, in order.
        judge: Says whether a candidate is the reference answer.
    """

    name: str
    version: int
    rule: str
    find: Find
    judge: Judge = same_text

    @property
    def label(self) -> str:
        """Name and version, as a record states them."""
        return f"{self.name} {self.version}"


EXTRACTORS: dict[str, Extractor] = {}


def extractor(*, version: int, judge: Judge = same_text) -> Callable[[Find], Find]:
    """Register a function as an extractor of its own name; its docstring states the rule.

    Raises:
        OutputsError: If one of that name is registered already.
    """

    def register(find: Find) -> Find:
        name = find.__name__
        if name in EXTRACTORS and EXTRACTORS[name].find.__module__ != find.__module__:
            raise OutputsError(
                f"an extractor called {name!r} is registered already; choose another name."
            )
        rule = (find.__doc__ or name).splitlines()[0]
        EXTRACTORS[name] = Extractor(name=name, version=version, rule=rule, find=find, judge=judge)
        return find

    return register


def find_extractor(name: str) -> Extractor:
    """Return an extractor by name.

    Raises:
        OutputsError: If there is none; the text names the nearest.
    """
    if name in EXTRACTORS:
        return EXTRACTORS[name]
    near = difflib.get_close_matches(name, EXTRACTORS, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise OutputsError(f"unknown extractor {name!r}. {hint}Known: {', '.join(EXTRACTORS)}.")
