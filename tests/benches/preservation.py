"""The preservation experiment against its bare forward passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from benches._bare import bare_passes_s
from benches._figures import Figure, figure, seconds


def measure_figures() -> Iterator[Figure]:
    """Compare the whole experiment with the bare forward passes that it needs."""
    from labkit.experiments import preservation
    from labkit.profiles import Lane, load_profile

    profile = dataclasses.replace(
        load_profile("cpu"), prompts=4, steps=24, float32_lane=Lane(prompts=2, steps=12)
    )
    pairs = []
    for _ in range(2):
        whole_s = seconds(lambda: preservation.run(profile))
        pairs.append(whole_s / bare_passes_s(profile))
    yield figure(
        "preservation experiment over its bare forward passes",
        pairs,
        unit="ratio",
        target=1.25,
        at_most=True,
        note="13 options, 4 prompts of 300 tokens, 24 steps and the float32 lane, against the same "
        "prefills and steps called directly, without loading, comparing or journalling",
    )
