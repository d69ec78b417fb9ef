"""The verdict benchmark as a whole, which has a time to keep."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benches._figures import ROOT, Figure, figure

CORES = 2


def measure_figures() -> Iterator[Figure]:
    """Run it once, from the shell, with a process a core."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "verdicts.json"
        shell = [sys.executable, "tests/verdicts.py", "--jobs", str(CORES), "--json", str(file)]
        ended = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True, check=False)
        # 1: it ran, and the verdict did not hold; or Python stopped, and there is no report
        found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        if ended.returncode not in (0, 1) or "wall_s" not in found:
            raise SystemExit(f"the verdict benchmark stopped: {ended.stderr.strip()}")
    counts = found["summary"]["criteria"]["growth"]
    yield figure(
        "the verdict benchmark",
        [found["wall_s"]],
        unit="s",
        target=600.0,
        at_most=True,
        note=f"{len(found['summary']['subjects'])} architectures, {counts['decisions']} decisions, "
        f"{counts['undetermined']} undetermined, {CORES} processes, once",
    )
