"""What stays of an option's distance when the arithmetic gets finer, against what shrinks.

The slope asks whether a distance is nearer to shrinking with the arithmetic or to staying. It
divides the decades between two precisions in half, so from bfloat16 to float32 it takes an
effect of up to 256 float32 roundings for arithmetic. Here the two parts are compared as they
stand in the finer lane: the coarse lane says how many roundings the option's own arithmetic
costs; what exceeds that in the fine lane has stayed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from labkit.harness.verdict import (
    DIFFERENT,
    PRESERVING,
    UNDETERMINED,
    Interval,
    Lane,
    over_prompts,
)

EQUAL_PARTS = math.sqrt(2)
"""Growth at which the part that stays equals the part that shrinks: they add as squares."""


def growth(coarse: Lane, fine: Lane) -> Interval | None:
    """Return how much the rounding ratio grows from a coarser to a finer precision.

    An option that is more exact than the baseline in the coarse lane (one that adds in float32,
    say) owes nothing for it in the fine one: its ratio there counts as 1.
    """
    each: list[float] = []
    for prompt in sorted(coarse.runs.keys() & fine.runs.keys()):
        before, after = coarse.distances(prompt), fine.distances(prompt)
        if before is not None and after is not None:
            each.append((after[0] / after[1]) / max(1.0, before[0] / before[1]))
    return over_prompts(each)


def judge_growth(coarse: Lane, fine: Lane) -> str:
    """Return the verdict: does more stay than shrinks?"""
    return _side(growth(coarse, fine), of=EQUAL_PARTS)


def remainder(fine: Lane, exact: Mapping[str, Sequence[float]]) -> Interval | None:
    """Return what is left of an option in float64, in units of the fine lane's own rounding.

    Args:
        fine: The finest lane, whose reference is float64.
        exact: Distance of the option, run in float64 itself, from that reference, by prompt.
    """
    each = []
    for prompt, distances in sorted(exact.items()):
        errors = fine.baselines[prompt].error_rms
        steps = [d / e for d, e in zip(distances, errors, strict=True) if e > 0]
        if steps:
            each.append(statistics.median(steps))
    return over_prompts(each)


def judge_remainder(fine: Lane, exact: Mapping[str, Sequence[float]]) -> str:
    """Return the verdict: is what is left in float64 more than float32's own rounding?"""
    return _side(remainder(fine, exact), of=1.0)


def judge_staying(coarse: Lane, fine: Lane, exact: Mapping[str, Sequence[float]]) -> str:
    """Return the verdict by the remainder, or by the growth where float64 gave none.

    Some kernels do not exist in float64, and some parts of a stack overflow in it.
    """
    return judge_remainder(fine, exact) if exact else judge_growth(coarse, fine)


def _side(found: Interval | None, *, of: float) -> str:
    if found is None or found.low is None or found.high is None:
        return UNDETERMINED
    if found.low <= of <= found.high:
        return UNDETERMINED
    return PRESERVING if found.high < of else DIFFERENT
