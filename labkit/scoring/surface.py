"""Extractors that look at the surface of a text: markers, phrases, and where numbers stand."""

from __future__ import annotations

import re

from labkit.scoring.normalisation import NUMBER, numbers_in
from labkit.scoring.registry import extractor

_MARKED = re.compile(r"####\s*(" + NUMBER.pattern + ")")
_PHRASED = re.compile(
    r"(?:(?:final answer|answer is)[\s:*$]*|=\s*)(" + NUMBER.pattern + r")(?=[\s.*]*(?:$|\n))",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")


@extractor(version=1)
def last_number(text: str) -> list[str]:
    """Take the last number anywhere in the text."""
    return numbers_in(text)


@extractor(version=1)
def strict_marker(text: str) -> list[str]:
    """Take the number that follows the last #### marker."""
    return _MARKED.findall(text)


@extractor(version=1)
def loose_phrase(text: str) -> list[str]:
    """Take what follows the first answer phrase or line-ending equals sign, else the last number.

    The first such place counts and not the last, as in rules that search a text from its start;
    intermediate arithmetic can therefore be taken for the answer.
    """
    return _PHRASED.findall(text)[:1] or numbers_in(text)


@extractor(version=1)
def boxed(text: str) -> list[str]:
    r"""Take what the last \boxed{} holds."""
    return _BOXED.findall(text)
