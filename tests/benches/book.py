"""The book of a run whose results are there: built from nothing, and again after an edit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benches._figures import ROOT, Figure, figure, seconds

_RUN = "results/published-cpu"
_PAGE = "book/chapter/admission.md"
_PAIRS = 3


def measure_figures() -> Iterator[Figure]:
    """Time the command on a folder that is empty, then on one whose site is there."""
    first_s, again_s = [], []
    for _ in range(_PAIRS):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "labkit", "book", "--run", _RUN, "--into", folder]

            def build(command: list[str] = command) -> None:
                subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

            first_s.append(seconds(build))
            # The copy is put right from the clone, so for the build the page has changed.
            (Path(folder) / _PAGE).write_text("# Edited\n", encoding="utf-8")
            again_s.append(seconds(build))
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    yield figure(
        "the book, built from nothing",
        first_s,
        unit="s",
        target=None,
        at_most=True,
        note=f"labkit book --run {_RUN} from the shell, into an empty folder; {load}",
    )
    yield figure(
        "the book, built again",
        again_s,
        unit="s",
        target=15.0,
        at_most=True,
        note=f"the same with the site in place and one page edited; {load}",
    )
    yield figure(
        "the book, again over from nothing",
        [again / first for again, first in zip(again_s, first_s, strict=True)],
        unit="ratio",
        target=None,
        at_most=True,
        note="the same builds, pair by pair",
    )
