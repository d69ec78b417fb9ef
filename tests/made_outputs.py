"""Outputs made up for tests, with every field that a test does not name filled in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labkit.outputs import Output, OutputSet


def made(**fields: Any) -> Output:
    """Make an output."""
    plain = {
        "id": "item",
        "prompt": "q",
        "reference": "5",
        "text": "",
        "output_tokens": 4,
        "stop_reason": "stop",
    }
    return Output(**{**plain, **fields})


def tokenised(pieces: Sequence[str], **fields: Any) -> Output:
    """Make an output from the texts of its tokens."""
    ends = tuple(itertools.accumulate(map(len, pieces)))
    text = "".join(pieces)
    return made(text=text, output_tokens=len(pieces), token_ends=ends, **fields)


def outputs(items: Sequence[Output], name: str = "a.jsonl") -> OutputSet:
    """Make a set of outputs."""
    return OutputSet(name=name, items=tuple(items), sha256="", path=Path(name))


def answers(texts: str, **fields: Any) -> list[Output]:
    """Make one output a letter: its text is 5, which is right, for `r`, else 6."""
    return [
        made(
            **{
                "id": str(n),
                "cluster": str(n % 8),
                "prompt": f"q{n}",
                "text": "5" if letter == "r" else "6",
                **fields,
            }
        )
        for n, letter in enumerate(texts)
    ]
