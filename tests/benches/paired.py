"""The paired comparison of many items."""

from __future__ import annotations

import random
from collections.abc import Iterator

from benches._figures import PAIRS, Figure, figure, seconds


def measure_figures() -> Iterator[Figure]:
    """Time the paired comparison of many items: scores, cells, intervals, item table."""
    from labkit.outputs import Output
    from labkit.paired import Pair, measure_impact
    from labkit.scoring import EXTRACTORS

    count, chance = 100_000, random.Random(7)

    def output(number: int) -> Output:
        answer = chance.choice([5, 5, 5, 6])
        text = f"First come {number}, then 3 more. 2 + 3 = 5, so the answer is {answer}."
        return Output(
            id=str(number),
            cluster=str(number // 8),
            prompt="q",
            reference="5",
            text=text,
            output_tokens=30,
            stop_reason="stop",
        )

    pairs = [Pair(before=output(n), after=output(n)) for n in range(count)]
    yield figure(
        "paired comparison of 100,000 items",
        [seconds(lambda: measure_impact(pairs, EXTRACTORS["last_number"])) for _ in range(PAIRS)],
        unit="s",
        target=5.0,
        at_most=True,
        note="last_number on both sides, four cells, exact test and intervals, 9,999 resamples of "
        "12,500 clusters; reading the files not included",
    )
