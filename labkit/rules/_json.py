"""Parse JSON that a stranger sent: whatever is wrong with it ends in one message."""

from __future__ import annotations

import json

from labkit.errors import RequestError
from labkit.files import parse_json_strict


def parse_json(text: str | bytes, *, what: str) -> object:
    """Return the value that a JSON text holds.

    Args:
        text: The text, or its bytes in UTF-8.
        what: What is being read, for the error's text.

    Raises:
        RequestError: If it is no strict JSON; see `labkit.files.parse_json_strict`.
    """
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        return parse_json_strict(decoded)
    except json.JSONDecodeError as error:
        raise RequestError(
            f"{what} must be JSON; it stops making sense at line {error.lineno}, "
            f"column {error.colno}: {error.msg}."
        ) from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{what} must be UTF-8 text; byte {error.start} is not.") from error
    except ValueError as error:  # ours, and Python's own for a number of thousands of digits
        raise RequestError(f"{what} must be JSON: {error}.") from error
