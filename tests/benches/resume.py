"""A run that is finished, called again."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benches._figures import PAIRS, ROOT, Figure, figure, seconds


def measure_figures() -> Iterator[Figure]:
    """Time the command on a run that is finished: nothing is left to measure."""
    with tempfile.TemporaryDirectory() as folder:
        shell = [sys.executable, "-m", "labkit", "preservation", "--profile", "quick"]

        def call() -> None:
            subprocess.run([*shell, "--run", folder], cwd=ROOT, check=True, capture_output=True)

        call()
        yield figure(
            "resuming a finished run",
            [seconds(call) for _ in range(PAIRS)],
            unit="s",
            target=3.0,
            at_most=True,
            note="labkit preservation from the shell, quick profile, every unit in the journal",
        )
