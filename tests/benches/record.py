"""What a record adds to a run, and the diff of two."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benches._figures import PAIRS, ROOT, Figure, figure, seconds


def measure_figures() -> Iterator[Figure]:
    """Time what a record adds to a run, and the diff of two from the shell."""
    from labkit.record import read_record
    from labkit.results import RunFolder

    published = ROOT / "results" / "published-cpu"
    before = read_record(published)
    seen = {name: stated.observed for name, stated in before.all_stated() if stated.observed}
    profile = before.in_force("evaluation.profile")

    def write() -> None:
        with tempfile.TemporaryDirectory() as home, RunFolder(home) as folder:
            spent_s = seconds(lambda: folder.start(command="chapter", profile=profile))
            # What the run itself leaves; the record it is written beside is its own.
            shutil.copytree(published, home, dirs_exist_ok=True, ignore=lambda *_: ["record.json"])
            spent_s += seconds(lambda: folder.observe(observed=seen))
            spent_s += seconds(folder.finish)
            spent_ms.append(1000 * spent_s)

    spent_ms: list[float] = []
    write()
    spent_ms.clear()
    for _ in range(PAIRS):
        write()
    yield figure(
        "writing a record",
        spent_ms,
        unit="ms",
        target=50.0,
        at_most=True,
        note="start, observations and end with digests, in a copy of the published cpu run",
    )
    runs = [str(published), str(ROOT / "results" / "published-quick")]
    shell = [sys.executable, "-m", "labkit", "record", "diff", *runs]
    yield figure(
        "labkit record diff from the shell",
        [
            seconds(lambda: subprocess.run(shell, cwd=ROOT, capture_output=True))
            for _ in range(PAIRS)
        ],
        unit="s",
        target=0.3,
        at_most=True,
        note="the two published runs, with the published verdicts",
    )
