"""The backend contract: what the harness knows about a stack, and nothing else.

A backend has four things: `encode`, `decode`, a session's `next_logits`, and a `manifest`. A
`Stack` makes the backends of one model, one a precision. Another stack is another adapter in
this folder; nothing else is edited.
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


class Stack(Protocol):
    """One model on one stack, at any precision."""

    @property
    def identity(self) -> dict[str, object]:
        """What identifies the model: name, origin, revision, digest, and the files' digests."""
        ...

    @property
    def positions(self) -> int | None:
        """The positions the model was made for; `None` where it does not say."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`, with no special tokens added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        ...

    def backend(self, precision: str) -> Backend:
        """Return the model computed in a dtype such as `float16`.

        The model is kept where it is in the precision that it was loaded in.

        Raises:
            ModelError: If the model, the precision or the device cannot be had.
        """
        ...

    def altered_by_cast(self, precision: str) -> tuple[int, int]:
        """Return how many stored weights a cast alters, and how many there are."""
        ...

    def depends(self) -> dict[str, object]:
        """Return what every number depends on apart from prompt, steps and option."""
        ...

    def observe(self, precision: str, ids: Sequence[int]) -> dict[str, object]:
        """Return what is in force while one prompt is read, by the fields of a run record."""
        ...

    def resolved(self) -> dict[str, object]:
        """Return what the name of the model was resolved to, by the fields of a run record."""
        ...

    def is_copy(self, variant: Backend, of: Backend) -> bool:
        """Say whether a variant holds weights of its own, which are worth collecting."""
        ...

    def collect(self) -> None:
        """Give the memory of dropped backends back."""
        ...

    def forget(self) -> None:
        """Drop what is kept; the next call loads it again."""
        ...
