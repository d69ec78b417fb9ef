"""Cache plans proven by allocation: measured anew, or read from the lab's data."""

from __future__ import annotations

import datetime
import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labkit.errors import RequestError
from labkit.files import data_file, write_atomically
from labkit.progress import Progress, tell

PROOF = ("allocation", "allocation.json")


def prove_all(names: Sequence[str] = (), *, progress: Progress = tell) -> dict[str, Any]:
    """Build, run and measure a twin of each architecture.

    Args:
        names: Model types; every one that transformers can build by default.
        progress: Called after each.

    Raises:
        RequestError: If a name is no architecture of the installed transformers.
    """
    from labkit import allocation

    known = allocation.architectures()
    if unknown := [name for name in names if name not in known]:
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are {len(known)} of them."
        raise RequestError(
            "An architecture must be one that the installed transformers builds; got "
            f"{', '.join(unknown)}. {hint}"
        )
    chosen = list(names) or known
    proofs = []
    for done, name in enumerate(chosen, start=1):
        proofs.append(allocation.prove(name))
        progress(done, len(chosen), name)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return allocation.document(proofs, made_utc=now)


def write_proof(proof: dict[str, Any], path: Path) -> None:
    """Write a proof as one compact line of JSON."""
    write_atomically(path, json.dumps(proof, separators=(",", ":"), allow_nan=False) + "\n")


def load_proof() -> dict[str, Any]:
    """Return the proof that the lab was published with, estimators included."""
    proof: dict[str, Any] = json.loads(data_file(*PROOF).read_text(encoding="utf-8"))
    return proof
