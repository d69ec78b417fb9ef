"""The extractor that knows mathematics: Hugging Face's math-verify, which parses and compares.

It reads `2/4` as 1/2, `50%` as 1/2 too, and two boxes as a set, so it differs from the surface
rules in what it calls equal, and not only in where it looks.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from labkit.errors import OutputsError
from labkit.scoring.registry import Candidate, NotJudged, extractor

LIMIT_S = 5
"""Longest time for one text; a tower of powers would take for ever."""
FIRST_LIMIT_S = 120
"""Longest time for the first text, which loads the parsers."""


def _equivalent(candidate: Candidate, reference: str) -> bool:
    if candidate.value is None:
        raise NotJudged(candidate.text)
    return bool(_limited("verify", _reference(reference), candidate.value))


@extractor(version=1, judge=_equivalent)
def math_verify(text: str) -> list[Candidate]:
    """Parse the answer as mathematics and compare it with the reference by equivalence."""
    try:
        parsed: list[Any] = _limited("parse", text)
    except NotJudged:
        return [Candidate(text="(not parsed)")]
    return [Candidate(text=str(parsed[-1]), value=parsed)] if parsed else []


@cache
def _reference(text: str) -> list[Any]:
    """Parse a reference answer; one that is no mathematics could never be matched."""
    parsed: list[Any] = _limited("parse", text)
    if not parsed:
        raise OutputsError(
            f"math_verify needs a reference that is mathematics; got reference={text!r}. "
            "Score these outputs with another extractor."
        )
    return parsed


def _limited(name: str, *arguments: Any) -> Any:
    """Call math-verify under its time limit, which is an alarm and so needs the main thread.

    Raises:
        OutputsError: If this is another thread.
        NotJudged: If time ran out, or the text is one that it cannot digest.
    """
    import math_verify as library
    from math_verify.errors import TimeoutException

    if threading.current_thread() is not threading.main_thread():
        raise OutputsError("math_verify limits its time by an alarm, and so needs the main thread.")
    limit = {"parse": "parsing_timeout", "verify": "timeout_seconds"}[name]
    _load_parsers()
    try:
        return getattr(library, name)(*arguments, raise_on_error=True, **{limit: LIMIT_S})
    except TimeoutException as problem:
        raise NotJudged(str(problem)) from problem
    except Exception as problem:  # sympy raises whatever its parsers stumble over
        raise NotJudged(f"{type(problem).__name__}: {problem}") from problem


@cache
def _load_parsers() -> None:
    """Parse once, so that loading is not charged to a text on a slow machine."""
    import math_verify as library

    library.parse(r"\boxed{\frac{1}{2}}", parsing_timeout=FIRST_LIMIT_S)
