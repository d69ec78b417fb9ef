"""Validation against a JSON Schema, without what the lab's schemas do not ask for."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_GRAMMARS = "rfc3987_syntax"


def first_fault(value: object, schema: Mapping[str, object]) -> str | None:
    """Return where a value breaks a schema and how, `$.run: … is not …`, or None."""
    with _without_grammars():
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match
    error = best_match(Draft202012Validator(schema).iter_errors(value))
    return None if error is None else f"{error.json_path}: {error.message}"


@contextmanager
def _without_grammars() -> Iterator[None]:
    """Import jsonschema without its check of internationalised links.

    For that one format it compiles dozens of grammars as it is imported, which takes ten times
    what all the rest of it takes. It does without where the package is not installed.
    """
    if "jsonschema" in sys.modules or _GRAMMARS in sys.modules:
        yield
        return
    sys.modules[_GRAMMARS] = None  # type: ignore[assignment]  # the way to say that it is absent
    try:
        yield
    finally:
        del sys.modules[_GRAMMARS]
