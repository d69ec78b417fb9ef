"""Other readings of the same lanes, for comparison with the verdict and for hard cases.

The remainder runs an option in float64 and asks what is left of it, in float32 roundings: it
needs one more pass a prompt and decides nearly everything. The slope divides the decades between
two precisions in half, so from bfloat16 to float32 it cannot tell an effect of some hundred
float32 roundings from arithmetic.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from labkit.harness.verdict import (
    DIFFERENT,
    PRESERVING,
    UNDETERMINED,
    Interval,
    Lane,
    judge,
    over_prompts,
    slope,
)

HALFWAY = 0.5  # between a slope of 1 and a slope of 0


def judge_slope(coarse: Lane, fine: Lane) -> str:
    """Return the verdict of the slope: nearer to shrinking, and within the baseline's reach?"""
    found = slope(coarse, fine)
    if found is None or found.low is None or found.high is None:
        return UNDETERMINED
    if found.high < HALFWAY:
        return DIFFERENT
    return PRESERVING if found.low > HALFWAY and _within_rounding(fine) else UNDETERMINED


def _within_rounding(lane: Lane) -> bool:
    """Say whether, on each prompt, the typical distance is one the baseline itself reaches."""
    return all(
        statistics.median(run.distance) <= float(lane.baselines[name].error_rms.max())
        for name, run in lane.runs.items()
    )


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
    found = remainder(fine, exact)
    if found is None or found.low is None or found.high is None:
        return UNDETERMINED
    if found.low <= 1.0 <= found.high:
        return UNDETERMINED
    return PRESERVING if found.high < 1.0 else DIFFERENT


def judge_staying(coarse: Lane, fine: Lane, exact: Mapping[str, Sequence[float]]) -> str:
    """Return the verdict by the remainder, or the lab's own where float64 gave none.

    Some kernels do not exist in float64, and some parts of a stack overflow in it.
    """
    return judge_remainder(fine, exact) if exact else judge([coarse, fine]).verdict
