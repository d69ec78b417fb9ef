"""The statistical contract: two aggregate scores of one population agree within a margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from labkit.errors import OutputsError
from labkit.outputs import OutputSet
from labkit.paired.intervals import (
    LEVEL,
    MIN_CLUSTERS,
    RESAMPLES,
    SEED,
    Interval,
    hull,
    score_difference_interval,
)
from labkit.paired.limits import Limits
from labkit.paired.questions import Questions, compare_questions
from labkit.paired.records import compare_provenance
from labkit.paired.verdict import Answer, Verdict
from labkit.scoring import Extractor, score


def statistical(
    before: OutputSet,
    after: OutputSet,
    extractor: Extractor,
    limits: Limits,
    *,
    independent_samples: bool = False,
) -> Verdict:
    """Demand that aggregate scores agree within the margin, over slices drawn anew on each side.

    Both sides must be of one population: they ask the same questions, or someone declares that
    they are independent samples of it. Else the contract is undetermined.

    Args:
        before: Outputs of the reference path.
        after: Outputs of the changed path.
        extractor: What reads the answers.
        limits: Of them the margin.
        independent_samples: Declares that the sets share no question and were drawn from one
            population, each without regard to the other.

    Raises:
        OutputsError: If an item of both sets asks something else in the second, or samples that
            are declared to be independent share a question.
    """
    asked = compare_questions(before, after)
    if independent_samples:
        _refuse_shared(asked)
    sides = [_slices(side, extractor) for side in (before, after)]
    comparable = asked.same or independent_samples
    interval = _difference_interval(sides) if comparable else None
    records = compare_provenance(before, after)
    difference = 100 * (_share(sides[1]) - _share(sides[0]))
    gaps = [*_gaps(asked, sides, declared=independent_samples), *records.not_evaluated]
    rest = f"no interval: {_FEW if comparable else asked}"
    if interval:
        rest = _in_words(interval, limits.margin, unpaired=independent_samples)
    return Verdict(
        contract="statistical",
        answer=_within(interval, limits.margin) if interval else "undetermined",
        sentence=f"The scores differ by {difference:+.2f} points; {rest}.",
        numbers={
            "before": _share(sides[0]),
            "after": _share(sides[1]),
            "difference_points": difference,
            "interval": asdict(interval) if interval else None,
            "margin": limits.margin,
            "questions": asdict(asked),
            "independent_samples": independent_samples,
            "records": records.outcome,
        },
        not_evaluated=tuple(gaps),
    )


def _in_words(interval: Interval, margin: float, *, unpaired: bool) -> str:
    kind = "unpaired interval between independent samples" if unpaired else "interval"
    return f"{kind} {interval.low:+.2f} to {interval.high:+.2f}, margin {margin:g}"


def _refuse_shared(asked: Questions) -> None:
    if asked.both:
        raise OutputsError(
            f"Independent samples must share no question; got {asked.both} of {asked.either} in "
            "both files. Compare the same questions without declaring samples, or keep each "
            "question in one file only."
        )


_FEW = f"fewer than {MIN_CLUSTERS} slices on a side"
Slices = Any  # shape (slices, 2): right, items


def _slices(side: OutputSet, extractor: Extractor) -> Slices:
    """Return each slice's right answers and items; an item without a cluster is a slice."""
    judged = score(side.items, extractor).items
    names = [item.cluster or item.id for item in side.items]
    _, members = np.unique(names, return_inverse=True)
    right = np.bincount(members, weights=[item.right for item in judged])
    return np.stack([right, np.bincount(members)], axis=1)


def _totals(slices: Slices) -> tuple[int, int]:
    """Return the right answers and the items of a side."""
    right, items = slices.sum(axis=0)
    return int(right), int(items)


def _share(slices: Slices) -> float:
    right, items = _totals(slices)
    return right / items


def _gaps(asked: Questions, sides: Sequence[Slices], *, declared: bool) -> list[str]:
    """Say what the comparison of two aggregates did not look at."""
    gaps = ["repeats: one run a side; the interval is over slices"]
    if declared:
        return [*gaps, "population: one for both samples, as declared", *_of_slices(sides)]
    if asked.same:
        return [*gaps, *_of_slices(sides)]
    return [
        *gaps,
        f"population: {asked}. Compare the same questions, or declare independent samples of one "
        "population that share none",
    ]


def _of_slices(sides: Sequence[Slices]) -> list[str]:
    if min(len(side) for side in sides) < MIN_CLUSTERS:
        return [f"no interval: {_FEW}"]
    return _without_spread(sides)


def _without_spread(sides: Sequence[Slices]) -> list[str]:
    """Name each side whose slices all have one score, so that resampling them shows nothing."""
    return [
        f"dependence within slices: all {len(side)} of the {name} side have one score"
        for name, side in zip(("reference", "changed"), sides, strict=True)
        if len(np.unique(side[:, 0] / side[:, 1])) == 1
    ]


def _difference_interval(sides: Sequence[Slices]) -> Interval | None:
    """Return the hull over slices drawn anew and over items, or None with too few slices.

    Slices without spread would make a point of the first; items without it leave the second open.
    """
    if min(len(side) for side in sides) < MIN_CLUSTERS:
        return None
    draw = np.random.default_rng(SEED)
    shares = []
    for side in sides:
        kinds, counts = np.unique(side, axis=0, return_counts=True)
        drawn = draw.multinomial(len(side), counts / len(side), size=RESAMPLES) @ kinds
        shares.append(drawn[:, 0] / drawn[:, 1])
    ends = np.quantile(100 * (shares[1] - shares[0]), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    drawn_anew = Interval(
        low=float(ends[0]),
        high=float(ends[1]),
        method=f"bootstrap over the slices of each side, {RESAMPLES} resamples, seed {SEED}",
    )
    return hull(drawn_anew, score_difference_interval(_totals(sides[0]), _totals(sides[1])))


def _within(interval: Interval, margin: float) -> Answer:
    if -margin <= interval.low and interval.high <= margin:
        return "holds"
    apart = interval.low > margin or interval.high < -margin
    return "does not hold" if apart else "undetermined"
