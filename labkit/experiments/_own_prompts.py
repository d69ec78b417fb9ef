"""Prompts of a user's own, one JSON object a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labkit.errors import PromptError
from labkit.experiments._passages import Passage
from labkit.files import parse_json_strict

SHAPE = '{"text": "…"}, with a "name" where it should keep one'


def read_prompts(path: str | Path) -> list[Passage]:
    """Read prompts from a `.jsonl` file: `text`, and a `name` where one is wanted.

    Args:
        path: The file; blank lines are skipped.

    Returns:
        The prompts in their order; one without a name is called after its line.

    Raises:
        PromptError: If the file cannot be read or is empty, or a line is not such an object, or
            two prompts have one name. The line is named.
    """
    file = Path(path)
    try:
        # JSON allows separators inside a text at which splitlines would cut.
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8"
        raise PromptError(f"prompts must be a readable file; {file.name}: {reason}.") from problem
    found = [_read(line, where=f"{file.name} line {n}", number=n) for n, line in _filled(lines)]
    if not found:
        raise PromptError(f"at least one prompt is needed; {file.name} holds none.")
    names = [passage.name for passage in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PromptError(f"each prompt needs a name of its own; {file.name} has {twice} twice.")
    return found


def _filled(lines: list[str]) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _read(line: str, *, where: str, number: int) -> Passage:
    try:
        stored: Any = parse_json_strict(line)
    except ValueError as problem:
        raise PromptError(
            f"each prompt is one JSON object, {SHAPE}; {where} is not: {problem}."
        ) from problem
    if not isinstance(stored, dict) or (unknown := stored.keys() - {"text", "name"}):
        what = f"has {', '.join(sorted(unknown))}" if isinstance(stored, dict) else "is no object"
        raise PromptError(f"each prompt is one JSON object, {SHAPE}; {where} {what}.")
    text, name = stored.get("text"), stored.get("name", f"line{number}")
    if not isinstance(text, str) or not text.strip() or not isinstance(name, str) or not name:
        raise PromptError(f"text and name of a prompt must not be empty; {where} has such a one.")
    if "/" in name or "+" in name:
        raise PromptError(f"a prompt's name must hold no '/' and no '+'; {where}: {name!r}.")
    return Passage(name=name, text=text)
