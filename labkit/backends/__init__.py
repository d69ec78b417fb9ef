"""The backend contract: the four things the harness knows about a stack.

`encode`, `decode`, a session's `next_logits`, and a `manifest`. Another stack is another
adapter in this folder; nothing else is edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.floating]


@runtime_checkable
class Session(Protocol):
    """One or more sequences that are being extended, and their cache.

    Attributes:
        observed: What was in force during the last call, read from the live objects
            (attention implementation, cache class, …), never from what was asked.
    """

    observed: dict[str, object]

    def next_logits(self, rows: Sequence[Sequence[int]]) -> Logits:
        """Append ids to each sequence and return the logits of the token that follows.

        The first call is the prompt; rows may then differ in length. Later calls append
        the same number of ids to each row.

        Args:
            rows: Token ids to append, one list a sequence.

        Returns:
            Shape `(len(rows), vocab)`, float32 (float64 from a float64 model).
        """
        ...


@runtime_checkable
class Backend(Protocol):
    """A stack that computes a causal language model."""

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`, with no special tokens added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        ...

    def session(self, *, capacity_tokens: int) -> Session:
        """Start an empty session whose sequences will not exceed `capacity_tokens`."""
        ...

    def next_logits(self, ids: Sequence[int]) -> Logits:
        """Return the logits after `ids` alone, shape `(vocab,)`; keeps nothing."""
        ...

    def manifest(self) -> dict[str, object]:
        """Return what this stack is and what it has in force, as plain JSON values."""
        ...
