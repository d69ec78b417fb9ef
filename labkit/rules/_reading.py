"""Read a flat JSON object into a frozen dataclass; its annotations are the contract."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

from labkit.errors import RequestError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T", bound="DataclassInstance")

_MISSING = object()
_LONGEST_SHOWN = 80  # characters of a wrong value; more would hide the message


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a JSON value of one annotation looks like.

    Attributes:
        name: The kind in words, for error messages.
        convert: Returns the Python value, or a private marker for a value of another kind.
    """

    name: str
    convert: Callable[[object], object]


def _only(accepts: Callable[[object], bool]) -> Callable[[object], object]:
    return lambda value: value if accepts(value) else _MISSING


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _MISSING
    try:
        return float(value)
    except OverflowError:
        return _MISSING


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _texts(value: object) -> object:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return _MISSING


def _int_pair(value: object) -> object:
    if isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_int, value)):
        return tuple(value)
    return _MISSING


def _text_mapping(value: object) -> object:
    if _is_mapping(value) and isinstance(value, Mapping):
        return value if all(isinstance(item, str) for item in value.values()) else _MISSING
    return _MISSING


def choice(*names: str) -> Kind:
    """Return the kind of a text that must be one of a few."""
    return Kind(name=f"one of {', '.join(names)}", convert=_only(lambda value: value in names))


_PLAIN = {
    "bool": Kind(name="true or false", convert=_only(lambda value: isinstance(value, bool))),
    "int": Kind(name="an integer", convert=_only(_is_int)),
    "float": Kind(name="a number", convert=_number),
    "str": Kind(name="a text", convert=_only(lambda value: isinstance(value, str))),
    "tuple[str, ...]": Kind(name="a list of texts", convert=_texts),
    "tuple[int, int]": Kind(name="a list of two integers", convert=_int_pair),
    "Mapping[str, str]": Kind(name="an object of texts", convert=_text_mapping),
    "Mapping[str, object]": Kind(name="an object", convert=_only(_is_mapping)),
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to a misspelt one, or None if none is close."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return found[0] if found else None


def brief(value: object) -> str:
    """Return a value as an error shows it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def ill_typed(values: Mapping[str, object], kinds: Mapping[str, str]) -> list[str]:
    """Return each value that is not of its kind, in the words of an error.

    Args:
        values: What was given; names without a kind are passed over.
        kinds: The annotation that each name must satisfy.
    """
    return [
        _fault(name, value, (_PLAIN[kinds[name]], True))
        for name, value in values.items()
        if name in kinds and _PLAIN[kinds[name]].convert(value) is _MISSING
    ]


def misspelt(name: str, known: Iterable[str]) -> str:
    """Return an unknown name in the words of an error, with the nearest known one."""
    near = nearest(name, known)
    return f"{name} (unknown; did you mean {near}?)" if near else f"{name} (unknown)"


def _fault(name: str, value: object, kind: tuple[Kind, bool]) -> str:
    allowed, may_be_null = kind
    return f"{name}={brief(value)} (must be {allowed.name}{' or null' if may_be_null else ''})"


def _kinds(target: type[_T], choices: Mapping[str, Kind]) -> dict[str, tuple[Kind, bool]]:
    """Return each field's kind, and whether null is one of its values."""
    known = {**_PLAIN, **choices}
    pairs = ((field.name, str(field.type)) for field in fields(target))
    return {
        name: (known[annotation.removesuffix(" | None")], annotation.endswith(" | None"))
        for name, annotation in pairs
    }


def read_fields(
    target: type[_T], data: object, *, what: str, choices: Mapping[str, Kind] | None = None
) -> _T:
    """Build a dataclass from a JSON object; every fault is named at once.

    Args:
        target: The dataclass whose annotations say what each field holds.
        data: The parsed JSON.
        what: What is being read, for the error's text.
        choices: Kinds of the annotations that are names of `Literal` types.

    Raises:
        RequestError: If a field is unknown, missing or of another kind.
    """
    if not _is_mapping(data) or not isinstance(data, Mapping):
        raise RequestError(
            f"{what} must be a JSON object; got {type(data).__name__}. "
            "Write its fields between braces."
        )
    kinds = _kinds(target, choices or {})
    values: dict[str, object] = {}
    faults: list[str] = []
    for name, value in data.items():
        if name not in kinds:
            faults.append(misspelt(name, kinds))
        elif value is None and kinds[name][1]:
            values[name] = None
        elif (converted := kinds[name][0].convert(value)) is _MISSING:
            faults.append(_fault(name, value, kinds[name]))
        else:
            values[name] = converted
    if faults:
        raise RequestError(
            f"{what} must have known, well-typed fields only; got {', '.join(faults)}. "
            f"Known fields: {', '.join(kinds)}."
        )
    return target(**values)
