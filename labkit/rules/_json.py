"""Parse JSON that a stranger sent: whatever is wrong with it ends in one message."""

from __future__ import annotations

import json
from typing import NoReturn

from labkit.errors import RequestError


class _NotJSONError(ValueError):
    """The text is no JSON, or states something twice."""


def parse_json(text: str | bytes, *, what: str) -> object:
    """Return the value that a JSON text holds.

    Args:
        text: The text, or its bytes in UTF-8.
        what: What is being read, for the error's text.

    Raises:
        RequestError: If it is no JSON, names a field twice, or is nested beyond reason.
    """
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        return json.loads(decoded, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise RequestError(
            f"{what} must be JSON; it stops making sense at line {error.lineno}, "
            f"column {error.colno}: {error.msg}."
        ) from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{what} must be UTF-8 text; byte {error.start} is not.") from error
    except RecursionError:
        raise RequestError(f"{what} must be an object; its JSON is nested too deeply.") from None
    except ValueError as error:  # ours, and Python's own for a number of thousands of digits
        raise RequestError(f"{what} must be JSON; got {error}.") from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _NotJSONError(f"the field {twice} twice in one object")
    return unique


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJSONError(f"{name}, which JSON does not have")
