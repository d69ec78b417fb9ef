"""A model's outputs on a set of items, frozen: one JSON line an item.

What scores or compares outputs reads them from here, whoever made them. A line that is not whole
is refused by its number and its field, so that no score rests on a guess.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import itertools
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from labkit.errors import OutputsError
from labkit.files import canonical_json, parse_json_strict, shown, write_atomically

OUTPUTS_NAME = "outputs.jsonl"
AT_CAP = "length"
"""The stop reason of an output that reached the cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a model wrote for one item.

    Attributes:
        id: The item's name, unique in its file.
        prompt: What the model was asked.
        reference: The right answer.
        text: What it wrote, without special tokens.
        output_tokens: Tokens it wrote, an end-of-text token included.
        stop_reason: `length` at the cap; else what ended it, such as `stop`.
        cluster: Items of one cluster succeed and fail together; None makes the item its own.
        reasoning_tokens: Tokens of its reasoning block, where whoever made it counted them.
        token_ids: Its tokens; None where only the text was kept.
        token_ends: Characters of `text` written after each token.
    """

    id: str
    prompt: str
    reference: str
    text: str
    output_tokens: int
    stop_reason: str
    cluster: str | None = None
    reasoning_tokens: int | None = None
    token_ids: tuple[int, ...] | None = None
    token_ends: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse counts that contradict each other."""
        for name in ("token_ids", "token_ends"):
            held = getattr(self, name)
            if held is not None and len(held) != self.output_tokens:
                raise OutputsError(
                    f"{name} must have one entry an output token; got {len(held)} entries, "
                    f"output_tokens={self.output_tokens}."
                )
        if self.output_tokens < 0 or not 0 <= (self.reasoning_tokens or 0) <= self.output_tokens:
            raise OutputsError(
                "counts must satisfy 0 <= reasoning_tokens <= output_tokens; got "
                f"reasoning_tokens={self.reasoning_tokens}, output_tokens={self.output_tokens}."
            )
        ends = (0, *(self.token_ends or ()), len(self.text))
        if any(a > b for a, b in itertools.pairwise(ends)):
            raise OutputsError("token_ends must rise from 0 to the length of text; they do not.")

    @property
    def at_cap(self) -> bool:
        """Whether the cap ended it."""
        return self.stop_reason == AT_CAP

    def cut(self, cap: int) -> Output:
        """Return what the first `cap` tokens would have been.

        Exact for a greedy output, whose first tokens do not depend on the cap.

        Raises:
            OutputsError: If the output has no `token_ends` to cut at.
        """
        if self.output_tokens <= cap:
            return self
        if self.token_ends is None:
            raise OutputsError(
                f"an output must have token_ends to be cut at a cap; item {self.id!r} has none."
            )
        return dataclasses.replace(
            self,
            text=self.text[: self.token_ends[cap - 1]] if cap else "",
            output_tokens=cap,
            stop_reason=AT_CAP,
            reasoning_tokens=None,
            token_ids=self.token_ids[:cap] if self.token_ids is not None else None,
            token_ends=self.token_ends[:cap],
        )

    def tokens_before(self, character: int) -> int | None:
        """Return how many tokens had begun before a place in the text; None if unknown."""
        if self.token_ends is None:
            return None
        whole = bisect.bisect_left(self.token_ends, character)
        return min(whole + 1, self.output_tokens) if character else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSet:
    """The outputs of one run.

    Attributes:
        name: Where they were read from, as it is shown.
        items: One an item, in the file's order.
        sha256: Digest of the file.
        path: The file.
    """

    name: str
    items: tuple[Output, ...]
    sha256: str
    path: Path


def read_outputs(path: str | Path) -> OutputSet:
    """Read a file of outputs, or the one of a folder.

    Raises:
        OutputsError: If it is missing or empty, a line is not whole, or an id stands twice; the
            text names the line and the field.
    """
    file = Path(path)
    file = file / OUTPUTS_NAME if file.is_dir() else file
    try:
        content = file.read_bytes()
        lines = content.decode("utf-8").split("\n")
    except FileNotFoundError as error:
        raise OutputsError(
            f"A file of outputs must exist; got path={shown(file)}. "
            "Name one, or make it with `labkit outputs float32`."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise OutputsError(
            f"A file of outputs must be readable UTF-8; got path={shown(file)}: {error}."
        ) from error
    items = [_read_line(line, place=f"{shown(file)} line {n}") for n, line in _numbered(lines)]
    if not items:
        raise OutputsError(f"A file of outputs must hold at least one; got path={shown(file)}.")
    _require_unique(items, [n for n, _ in _numbered(lines)], source=shown(file))
    digest = hashlib.sha256(content).hexdigest()
    return OutputSet(name=shown(file), items=tuple(items), sha256=digest, path=file)


def write_outputs(path: Path, items: Iterable[Output]) -> str:
    """Write outputs, one JSON line each, and return the file's SHA-256."""
    text = "".join(f"{canonical_json(_plain(item))}\n" for item in items)
    write_atomically(path, text)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(item: Output) -> dict[str, object]:
    return {key: value for key, value in dataclasses.asdict(item).items() if value is not None}


def _numbered(lines: Sequence[str]) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _read_line(line: str, *, place: str) -> Output:
    try:
        stored = parse_json_strict(line)
    except ValueError as error:
        raise OutputsError(f"Each line must be a JSON object; got {place}: {error}.") from error
    if not isinstance(stored, dict):
        raise OutputsError(
            f"Each line must be a JSON object; got {place}: {type(stored).__name__}."
        )
    _check_fields(stored, place=place)
    tuples = {key: tuple(value) for key, value in stored.items() if isinstance(value, list)}
    try:
        return Output(**{**stored, **tuples})
    except OutputsError as error:
        raise OutputsError(f"{place}: {error}") from error


def _check_fields(stored: Mapping[str, Any], *, place: str) -> None:
    """Refuse fields that are missing, unknown or of another type."""
    types_of = _field_types()
    if unknown := sorted(set(stored) - set(types_of)):
        raise OutputsError(
            f"An output has the fields {', '.join(types_of)}; got {place}: {', '.join(unknown)}."
        )
    if missing := [name for name in _REQUIRED if name not in stored]:
        raise OutputsError(
            f"An output must have {', '.join(_REQUIRED)}; missing at {place}: {', '.join(missing)}."
        )
    for name, value in stored.items():
        if not _is_a(value, types_of[name]):
            wanted = " or ".join(_WORDS[kind] for kind in types_of[name])
            raise OutputsError(f"{name} must be {wanted}; got {place}: {name}={value!r:.60}.")
    if not stored["id"].strip():
        raise OutputsError(f"id must not be empty; got {place}: id={stored['id']!r}.")


_WORDS = {str: "a text", int: "a whole number", tuple: "a list of whole numbers", None: "null"}
_REQUIRED = tuple(
    item.name for item in dataclasses.fields(Output) if item.default is dataclasses.MISSING
)


@cache
def _field_types() -> dict[str, tuple[Any, ...]]:
    hints = typing.get_type_hints(Output)
    return {name: _kinds(hint) for name, hint in hints.items()}


def _kinds(hint: Any) -> tuple[Any, ...]:
    if isinstance(hint, types.UnionType):
        return tuple(kind for part in typing.get_args(hint) for kind in _kinds(part))
    return (None if hint is types.NoneType else typing.get_origin(hint) or hint,)


def _is_a(value: object, kinds: Sequence[Any]) -> bool:
    if value is None:
        return None in kinds
    if isinstance(value, list):
        return tuple in kinds and all(type(entry) is int for entry in value)
    return type(value) in kinds


def _require_unique(items: Sequence[Output], lines: Sequence[int], *, source: str) -> None:
    seen: dict[str, int] = {}
    for item, number in zip(items, lines, strict=True):
        if (first := seen.setdefault(item.id, number)) != number:
            raise OutputsError(
                f"An id must stand once in a file of outputs; got {source}: id={item.id!r} "
                f"on lines {first} and {number}."
            )
