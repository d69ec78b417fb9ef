"""Typed reading of one JSON object: every lookup is checked, recorded and named.

A broken value is not raised where it is met. It is added to `problems`, so that one
error can name every field that is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final

LARGEST_INTEGER: Final = 10**12  # no published length, width or count comes near
LONGEST_SHOWN_CHARS: Final = 60
LONGEST_SHOWN_ITEMS: Final = 8


class Reader:
    """One JSON object of a config, with the path that leads to it.

    Args:
        fields: The object.
        prefix: What stands before a key in messages, `text_config.` for example.
        parent: The reader whose problems and notes this one shares.
    """

    __slots__ = ("fields", "notes", "prefix", "problems", "seen")

    def __init__(
        self, fields: Mapping[str, object], *, prefix: str = "", parent: Reader | None = None
    ) -> None:
        """Start with no key seen."""
        self.fields = fields
        self.prefix = prefix
        self.seen: set[str] = set()
        self.problems: list[str] = [] if parent is None else parent.problems
        self.notes: list[str] = [] if parent is None else parent.notes

    def get(self, key: str) -> object:
        """Return the raw value, None where the key is missing or null."""
        if key not in self.fields:
            return None
        self.seen.add(key)
        return self.fields[key]

    def states(self, key: str) -> bool:
        """Whether the key is there, null included."""
        return key in self.fields

    def integer(self, *keys: str, least: int = 1, most: int = LARGEST_INTEGER) -> int | None:
        """Return a whole number under any of its spellings, which must agree."""
        chosen: int | None = None
        chosen_key = ""
        for key in keys:
            if key not in self.fields or (value := self.get(key)) is None:
                continue
            if type(value) is not int:
                if type(value) is float and isfinite(value) and value == int(value):
                    value = int(value)
                else:
                    self._refuse_integer(key, value, least=least, most=most)
                    continue
            if not least <= value <= most:
                self._refuse_integer(key, value, least=least, most=most)
            elif chosen is None:
                chosen, chosen_key = value, key
            elif chosen != value:
                self.disagree(chosen_key, chosen, key, value)
        return chosen

    def first_integer(self, *keys: str) -> int | None:
        """Return the first whole number stated; later spellings may mean something else."""
        stated = [self.integer(key) for key in keys if key in self.fields]
        return next((value for value in stated if value is not None), None)

    def number(self, key: str, *, above: float = 0.0) -> float | None:
        """Return a finite number greater than `above`."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, int | float) and _is_figure(value) and value > above:
            return value
        self.refuse(key, value, must=f"a finite number above {above:g}")
        return None

    def flag(self, key: str) -> bool | None:
        """Return true or false."""
        value = self.get(key)
        if value is None or value is True or value is False:
            return value
        self.refuse(key, value, must="true or false")
        return None

    def text(self, *keys: str) -> str | None:
        """Return a string under any of its spellings, which must agree."""
        chosen: str | None = None
        chosen_key = ""
        for key in keys:
            value = self.get(key)
            if value is None:
                continue
            if not isinstance(value, str):
                self.refuse(key, value, must="a string")
            elif chosen is None:
                chosen, chosen_key = value, key
            elif chosen != value:
                self.disagree(chosen_key, chosen, key, value)
        return chosen

    def items(self, key: str) -> list[object] | None:
        """Return an array."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, list | tuple):
            return list(value)
        self.refuse(key, value, must="an array")
        return None

    def indices(self, key: str, *, depth: int, base: int = 0) -> frozenset[int] | None:
        """Return an array of layer numbers as zero-based indices below `depth`."""
        values = self.items(key)
        if values is None:
            return None
        if all(type(v) is int and base <= v < depth + base for v in values):
            return frozenset(v - base for v in values if isinstance(v, int))
        self.refuse(
            key, values, must=f"layer numbers from {base} to {depth + base - 1} (of {depth} layers)"
        )
        return None

    def table(self, key: str) -> Reader | None:
        """Return a reader for a nested object."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, Mapping):
            return Reader(value, prefix=f"{self.prefix}{key}.", parent=self)
        self.refuse(key, value, must="an object")
        return None

    def refuse(self, key: str, value: object, *, must: str) -> None:
        """Record that a value is not what it must be."""
        path = self.prefix + key
        self.problems.append(f"`{path}` must be {must}; got {path}={shown(value)}.")

    def disagree(self, key: str, value: object, other: str, other_value: object) -> None:
        """Record that two spellings of one thing differ."""
        self.contradict(f"`{key}` and `{other}` mean the same and must agree", key, other)

    def contradict(self, must: str, *keys: str) -> None:
        """Record that fields do not fit together, with their values."""
        got = ", ".join(f"{self.prefix}{key}={shown(self.fields.get(key))}" for key in keys)
        self.problems.append(f"{must}; got {got}. Check that both come from one config.json.")

    def note(self, text: str) -> None:
        """Record why something is not known, or what a figure rests on."""
        self.notes.append(text)

    def _refuse_integer(self, key: str, value: object, *, least: int, most: int) -> None:
        open_ended = most == LARGEST_INTEGER and not (isinstance(value, int) and value > most)
        limits = f"of at least {least}" if open_ended else f"from {least} to {most}"
        self.refuse(key, value, must=f"a whole number {limits}")


def shown(value: object) -> str:
    """Return a value as JSON spells it, cut to a readable length."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 200:  # str() of huge integers may fail
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, Mapping):
        return f"an object of {len(value)}"
    if isinstance(value, list | tuple):
        nested = any(
            isinstance(item, list | tuple | Mapping) for item in value[:LONGEST_SHOWN_ITEMS]
        )
        if nested or len(value) > LONGEST_SHOWN_ITEMS:
            return f"an array of {len(value)}"
        return f"[{', '.join(map(shown, value))}]"
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST_SHOWN_CHARS else text[:LONGEST_SHOWN_CHARS] + "…"


def _is_figure(value: int | float) -> bool:
    """Whether a value is a finite number: no boolean, no NaN, no integer past all floats."""
    try:
        return not isinstance(value, bool) and isfinite(value)
    except OverflowError:
        return False
