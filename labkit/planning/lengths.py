"""Read a distribution of lengths: one JSON object a line, as a service's log would have it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from labkit.errors import PlanningError
from labkit.files import parse_json_strict
from labkit.planning.pool import counted

SHAPES: Final = (("tokens",), ("prompt_tokens", "max_new_tokens"))


def read_lengths(path: Path) -> list[int]:
    """Return the tokens that each line reserves: `tokens`, or prompt and new tokens together.

    Raises:
        PlanningError: If the file cannot be read, has no line, or a line is not of either shape;
            the text names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PlanningError(
            f"A file of lengths must be readable text; got {path}: {reason}."
        ) from error
    lengths = [
        _reserved(line, place=f"{path.name}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not lengths:
        raise PlanningError(
            f"A file of lengths must have at least one line; got none in {path}. "
            'Write one such as {"prompt_tokens": 900, "max_new_tokens": 256} for each request.'
        )
    return lengths


def _reserved(line: str, *, place: str) -> int:
    try:
        row = parse_json_strict(line)
    except ValueError as error:
        raise PlanningError(f"Each line must be JSON; got {place}: {error}.") from error
    keys = tuple(row) if isinstance(row, Mapping) else ()
    if not any(sorted(keys) == sorted(shape) for shape in SHAPES):
        wanted = " or ".join(f"{{{', '.join(shape)}}}" for shape in SHAPES)
        got = f"{{{', '.join(keys)}}}" if isinstance(row, Mapping) else type(row).__name__
        raise PlanningError(f"Each line must be {wanted}; got {got} in {place}.")
    # An answer of no token is allowed, a prompt of none is not.
    least = {"max_new_tokens": 0}
    return sum(counted(row[key], name=f"{key} ({place})", least=least.get(key, 1)) for key in keys)
