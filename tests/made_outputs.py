"""Outputs made up for tests, with every field that a test does not name filled in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from labkit.outputs import Output


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
