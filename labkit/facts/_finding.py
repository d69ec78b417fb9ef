"""One learned fact: its value, and how it was learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit.probes import attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The value of one fact, None where it could not be learned, and how.

    Attributes:
        name: The field of `RuntimeFacts`.
        value: What was found; None says unknown, never no.
        how: What was rendered, run, timed or read; or why that failed.
    """

    name: str
    value: Any
    how: str


def find(name: str, measure: Callable[[], Any], *, how: str) -> Finding:
    """Measure one fact; a measurement that fails leaves it unknown and says why."""
    measured = attempt(measure)
    if measured.raised:
        return Finding(
            name=name,
            value=None,
            how=f"not learned, {measured.exception_type}: {measured.exception_text} ({how})",
        )
    return Finding(name=name, value=measured.value, how=how)
