"""A form made from a dataclass: each field with its label and the words of its docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_ENTRY = re.compile(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field that a form can hold.

    Attributes:
        name: Its name in the JSON.
        kind: `bool`, `int`, `float`, `text`, `texts`, `ints` or `choice`.
        choices: What a choice may be.
        words: What it means.
    """

    name: str
    kind: str
    choices: tuple[str, ...] = ()
    words: str = ""


_KINDS: dict[object, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "text",
    tuple[str, ...]: "texts",
    tuple[int, int]: "ints",
}


def fields_of(target: type) -> list[Field]:
    """Return the fields that a form can hold; objects are left to the JSON beside it."""
    hints = get_type_hints(target)
    words = words_of(target)
    found = []
    for item in fields(target):
        hint = _without_none(hints[item.name])
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        kind = "choice" if choices else _KINDS.get(hint)
        if kind:
            found.append(Field(name=item.name, kind=kind, choices=choices, words=words[item.name]))
    return found


def words_of(target: type) -> dict[str, str]:
    """Return what a dataclass's docstring says of each attribute, in a page's words."""
    _, _, listed = (inspect.getdoc(target) or "").partition("Attributes:\n")
    return {
        name: re.sub(r"\bNone\b", "not stated", " ".join(text.split())).replace("`", "")
        for name, text in _ENTRY.findall(listed)
    }


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    return hint


def form_html(
    target: type, *, legend: str, first: Sequence[str], known: Mapping[str, Sequence[str]]
) -> str:
    """Return a fieldset: the first fields in sight, the others behind a summary.

    Args:
        target: The dataclass.
        legend: What the fields are, in a few words.
        first: The fields in sight, in this order.
        known: Values that a text may take, offered while it is typed.
    """
    by_name = {item.name: item for item in fields_of(target)}
    prefix = f"labkit-{target.__name__.lower()}"
    make = {name: _field_html(item, prefix, known.get(name, ())) for name, item in by_name.items()}
    others = "".join(html for name, html in make.items() if name not in first)
    return (
        f'<fieldset class="labkit-form" data-part="{target.__name__}"><legend>{escape(legend)}'
        f'</legend><div class="labkit-form-fields">{"".join(make[name] for name in first)}</div>'
        f"<details><summary>{len(make) - len(first)} further fields</summary>"
        f'<div class="labkit-form-fields">{others}</div></details></fieldset>'
    )


def _field_html(item: Field, prefix: str, known: Sequence[str]) -> str:
    place = f"{prefix}-{item.name}"
    shared = (
        f'id="{place}" name="{item.name}" data-kind="{item.kind}" aria-describedby="{place}-words"'
    )
    return (
        f'<div class="labkit-form-field"><label for="{place}">{item.name.replace("_", " ")}</label>'
        f"{_control(item, shared, place, known)}"
        f'<small id="{place}-words">{escape(item.words)}</small></div>'
    )


def _control(item: Field, shared: str, place: str, known: Sequence[str]) -> str:
    if item.kind in ("bool", "choice"):
        values = item.choices or ("true", "false")
        words = {"true": "yes", "false": "no"}
        options = "".join(
            f'<option value="{escape(value)}">{escape(words.get(value, value))}</option>'
            for value in values
        )
        return f'<select {shared}><option value="">not stated</option>{options}</select>'
    if item.kind in ("int", "float"):
        return f'<input type="number" step="{"1" if item.kind == "int" else "any"}" {shared}>'
    if not known:
        return f'<input type="text" autocomplete="off" {shared}>'
    options = "".join(f'<option value="{escape(value)}"></option>' for value in known)
    return (
        f'<input type="text" autocomplete="off" list="{place}-known" {shared}>'
        f'<datalist id="{place}-known">{options}</datalist>'
    )
