"""Validation: the first fault by its place, and no time spent on formats that nobody asks for."""

from __future__ import annotations

from support import Python

from labkit.schemas import first_fault

SCHEMA = {"type": "object", "properties": {"runs": {"type": "integer", "minimum": 0}}}


def test_a_fault_is_named_by_its_place() -> None:
    """What breaks the schema is said with its path; what keeps it is no fault."""
    assert first_fault({"runs": 3}, SCHEMA) is None
    assert first_fault({"runs": -1}, SCHEMA) == "$.runs: -1 is less than the minimum of 0"


def test_validation_compiles_no_grammar(python: Python) -> None:
    """The grammars of internationalised links stay out, and can still be imported afterwards."""
    code = (
        "import sys; from labkit.schemas import first_fault; first_fault(1, {'type': 'integer'}); "
        "print('rfc3987_syntax' in sys.modules, 'lark' in sys.modules, 'jsonschema' in sys.modules)"
    )

    assert python(code).stdout.split() == ["False", "False", "True"]
