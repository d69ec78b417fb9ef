"""What several test files share apart from fixtures."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from labkit.files import find_root

CASES = Path(__file__).parent / "cases"
ROOT = find_root(Path(__file__).parent)

Python = Callable[..., subprocess.CompletedProcess[str]]
MakeNotebook = Callable[..., Path]


def read_cases(name: str) -> list[dict]:
    """Return the cases of a file in tests/cases; each says why it is there."""
    cases = json.loads((CASES / name).read_text(encoding="utf-8"))
    assert all(case["why"] for case in cases)
    return cases
