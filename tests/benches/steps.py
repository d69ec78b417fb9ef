"""Peak memory against the number of steps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benches._figures import ROOT, Figure, figure


def measure_figures() -> Iterator[Figure]:
    """Compare the peak memory of many steps with that of few."""
    code = (
        "import dataclasses, resource, sys; from labkit.experiments import preservation as p; "
        "from labkit.profiles import Lane, load_profile; "
        "small = dataclasses.replace(load_profile('quick'), steps=int(sys.argv[1]), "
        "float32_lane=Lane(prompts=0, steps=0)); "
        "p.run(small, knobs=['static_cache']); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )

    def peak_kib(steps: int) -> int:
        command = [sys.executable, "-c", code, str(steps)]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        return int(done.stdout.split()[-1])

    yield figure(
        "peak memory of 96 steps over that of 8",
        [peak_kib(96) / peak_kib(8) for _ in range(2)],
        unit="ratio",
        target=1.05,
        at_most=True,
        note="one row, embedded model; logits are reduced a step at a time",
    )
