"""Peak memory of the preservation experiment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benches._figures import ROOT, Figure, figure

GIB = 2**30


def measure_figures() -> Iterator[Figure]:
    """Measure the peak memory of the experiment against the weights that its rows need."""
    code = (
        "import resource; from labkit.experiments import preservation as p; "
        "from labkit.profiles import load_profile; "
        "p.run(load_profile('cpu'), knobs=['float32', 'quantised_weights:bits=8']); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    peak_bytes = int(done.stdout.split()[-1]) * 1024
    from labkit import models

    weights = sum(parameter.numel() for parameter in models.load().model.parameters())
    allowed_bytes = weights * (2 + 4 + 8) + GIB
    yield figure(
        "peak memory of the preservation experiment",
        [peak_bytes / allowed_bytes],
        unit="share of the weights in float16, float32 and float64 plus 1 GiB",
        target=1.0,
        at_most=True,
        note=f"all prompts and steps of the cpu profile, the two options that copy the weights: "
        f"{peak_bytes / GIB:.2f} GiB of {allowed_bytes / GIB:.2f} GiB, imports included",
    )
