"""A toy stack for tests: a bigram table whose logits are known exactly.

It is a real backend, small enough to reason about by hand: the logits after a sequence are
the table's row for its last token, plus `drift` for each token that went before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from labkit.backends import Logits

VOCABULARY = "abcdefghijklmnopqrstuvwxyz .,"


@dataclass(slots=True, kw_only=True)
class ToySession:
    """Sequences under extension by a `ToyBackend`."""

    backend: ToyBackend
    observed: dict[str, object] = field(default_factory=dict)
    rows: list[list[int]] = field(default_factory=list)

    def next_logits(self, rows: Sequence[Sequence[int]]) -> Logits:
        """See `labkit.backends.Session.next_logits`."""
        if not self.rows:
            self.rows = [[] for _ in rows]
        for kept, new in zip(self.rows, rows, strict=True):
            kept.extend(new)
        self.observed = {"cache": "list", "rows": len(self.rows)}
        return np.stack([self.backend.logits_after(row) for row in self.rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyBackend:
    """A bigram model over 29 characters.

    Attributes:
        seed: Seed of the table.
        dtype: Arithmetic of the answer; float16 rounds it.
        drift: Added to every logit of even index for each token of context.
    """

    seed: int = 0
    dtype: str = "float32"
    drift: float = 0.0

    @property
    def table(self) -> NDArray[np.float64]:
        """The bigram logits, shape `(29, 29)`."""
        size = len(VOCABULARY)
        return np.random.default_rng(self.seed).normal(size=(size, size)) * 4.0

    def logits_after(self, ids: Sequence[int]) -> Logits:
        """Return the logits after `ids`, rounded through `dtype`, shape `(29,)`."""
        exact = self.table[ids[-1]].copy()
        exact[::2] += self.drift * len(ids)
        rounded: Logits = exact.astype(self.dtype)
        return rounded if self.dtype == "float64" else rounded.astype(np.float32)

    def encode(self, text: str) -> list[int]:
        """See `labkit.backends.Backend.encode`; unknown characters become spaces."""
        return [VOCABULARY.find(c) if c in VOCABULARY else 26 for c in text.lower()]

    def decode(self, ids: Sequence[int]) -> str:
        """See `labkit.backends.Backend.decode`."""
        return "".join(VOCABULARY[i] for i in ids)

    def session(self, *, capacity_tokens: int) -> ToySession:
        """See `labkit.backends.Backend.session`."""
        return ToySession(backend=self)

    def next_logits(self, ids: Sequence[int]) -> Logits:
        """See `labkit.backends.Backend.next_logits`."""
        return self.logits_after(ids)

    def manifest(self) -> dict[str, object]:
        """See `labkit.backends.Backend.manifest`."""
        return {"stack": "toy", "seed": self.seed, "dtype": self.dtype, "drift": self.drift}
