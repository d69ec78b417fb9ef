"""Closed sets of words, and the refusal of one that is not in its set."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from labkit.errors import EvidenceError


def known_word(word: object, known: Collection[str], *, what: str) -> str:
    """Return a word that is one of the known.

    Raises:
        EvidenceError: If it is not; the nearest is named.
    """
    if isinstance(word, str) and word in known:
        return word
    near = difflib.get_close_matches(str(word), sorted(known), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise EvidenceError(f"{what} must be one of {', '.join(known)}; got {word!r}.{hint}")
