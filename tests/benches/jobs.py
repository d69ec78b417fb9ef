"""Two jobs against one."""

from __future__ import annotations

import os
from collections.abc import Iterator

from benches._figures import Figure, figure, seconds


def measure_figures() -> Iterator[Figure]:
    """Compare two jobs with one on the same cores."""
    from labkit.experiments import preservation
    from labkit.profiles import load_profile

    if len(os.sched_getaffinity(0)) < 2:
        return
    profile = load_profile("quick")
    pairs = []
    for _ in range(2):
        alone_s = seconds(lambda: preservation.run(profile))
        pairs.append(seconds(lambda: preservation.run(profile, jobs=2)) / alone_s)
    yield figure(
        "two jobs over one",
        pairs,
        unit="ratio",
        target=None,
        at_most=True,
        note="quick profile, embedded model, workers started and models loaded included",
    )
