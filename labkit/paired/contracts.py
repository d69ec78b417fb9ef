"""Three things that *reproducible* can mean, each with its own test.

Bitwise: the same tokens. Task: the paired outcomes stay within limits that were declared before.
Statistical: the aggregate score stays within a declared margin, whatever single items do. A
verdict names what it did not look at, and one that cannot be reached is no pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from labkit.errors import OutputsError
from labkit.outputs import OutputSet
from labkit.paired.impact import Impact, compared_by, has_tokens, measure_impact, same_output
from labkit.paired.intervals import (
    LEVEL,
    MIN_CLUSTERS,
    RESAMPLES,
    SEED,
    Interval,
    hull,
    score_difference_interval,
)
from labkit.paired.pairs import pair_outputs, shared_pairs
from labkit.paired.records import compare_provenance
from labkit.record import SAME_ARTEFACT
from labkit.scoring import Extractor, score

Answer = Literal["holds", "does not hold", "undetermined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is acceptable, declared before the comparison is made.

    Attributes:
        max_lost: Largest number of items that may go from right to wrong; None sets no limit.
        max_net_loss: Largest loss of the score, in percentage points, that its interval may reach.
        max_different: Largest percentage of outputs that may differ; None sets no limit.
        margin: Largest difference of two aggregate scores, in percentage points.
    """

    max_lost: int | None = None
    max_net_loss: float = 2.0
    max_different: float | None = None
    margin: float = 2.0

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> Limits:
        """Read limits, refusing unknown names and what is no number of at least 0.

        Raises:
            OutputsError: Naming the field.
        """
        for name, value in stored.items():
            if name not in cls.__dataclass_fields__:
                known = ", ".join(cls.__dataclass_fields__)
                raise OutputsError(f"limits are {known}; got {name!r}.")
            optional = value is None and name in ("max_lost", "max_different")
            holds, what = _COUNT if name == "max_lost" else _PERCENT
            if not optional and not holds(value):
                raise OutputsError(f"{name} must be {what}; got {name}={value!r}.")
        return cls(**stored)  # type: ignore[arg-type]  # names and types checked above


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_percent(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 100  # type: ignore[operator]  # a number


_COUNT = (_is_count, "a whole number of at least 0")
_PERCENT = (_is_percent, "a number from 0 to 100")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a contract says about two sets of outputs.

    Attributes:
        contract: `bitwise`, `task` or `statistical`.
        answer: `holds`, `does not hold` or `undetermined`.
        sentence: The answer with its numbers.
        numbers: They, by name.
        not_evaluated: What the contract did not look at.
    """

    contract: str
    answer: Answer
    sentence: str
    numbers: Mapping[str, object] = field(default_factory=dict)
    not_evaluated: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain JSON."""
        return asdict(self) | {"not_evaluated": list(self.not_evaluated)}


def bitwise(before: OutputSet, after: OutputSet, extractor: Extractor, limits: Limits) -> Verdict:
    """Demand identical tokens for every item; scores and limits play no part."""
    pairs = pair_outputs(before, after)
    by = compared_by(pairs)
    other = [pair.before.id for pair in pairs if not same_output(pair)]
    texts = sum(not has_tokens(pair) for pair in pairs)
    gaps = [f"token ids: {texts} of {len(pairs)} pairs have only text on a side"] if texts else []
    records = compare_provenance(before, after)
    if other:
        answer: Answer = "does not hold"
        sentence = f"{len(other)} of {len(pairs)} outputs differ by their {by}; first {other[0]!r}."
    else:
        # Two token sequences can spell one text, and another artefact may agree by chance.
        answer = (
            "holds" if not gaps and records.outcome in (None, SAME_ARTEFACT) else "undetermined"
        )
        sentence = f"All {len(pairs)} outputs have identical {by}."
    if records.outcome:
        sentence += f" The records say: {records.outcome}."
    numbers = {
        "items": len(pairs),
        "different": len(other),
        "compared": by,
        "records": records.outcome,
    }
    gaps += records.not_evaluated
    return Verdict(
        contract="bitwise",
        answer=answer,
        sentence=sentence,
        numbers=numbers,
        not_evaluated=tuple(gaps),
    )


def task(before: OutputSet, after: OutputSet, extractor: Extractor, limits: Limits) -> Verdict:
    """Demand that paired outcomes stay within the limits, as far as the data can tell."""
    impact = measure_impact(pair_outputs(before, after), extractor)
    # Neither clusters nor small counts are forgotten.
    worst = hull(impact.exact, impact.clustered)
    broken, open_ = _against(impact, worst, limits)
    answer: Answer = "does not hold" if broken else "undetermined" if open_ else "holds"
    cells = impact.transitions
    sentence = (
        f"{cells.right_wrong} of {cells.items} items lost and {cells.wrong_right} gained: net "
        f"{cells.net_points:+.2f} points, interval {worst.low:+.2f} to {worst.high:+.2f}"
    )
    faults = "; ".join([*broken, *open_])
    records = compare_provenance(before, after)
    numbers = impact.to_json(with_items=False) | {
        "limits": asdict(limits),
        "records": records.outcome,
    }
    return Verdict(
        contract="task",
        answer=answer,
        sentence=f"{sentence}; {faults}." if faults else f"{sentence}, within the limits.",
        numbers=numbers,
        not_evaluated=(*impact.not_evaluated, *records.not_evaluated),
    )


def _against(impact: Impact, interval: Interval, limits: Limits) -> tuple[list[str], list[str]]:
    """Return which limits are broken, and which may be for all that is known."""
    lost, different = impact.transitions.right_wrong, impact.divergence.percent
    broken, open_ = [], []
    if limits.max_lost is not None and lost > limits.max_lost:
        broken.append(f"{lost} items lost, more than the {limits.max_lost} allowed")
    if limits.max_different is not None and different > limits.max_different:
        broken.append(f"{different:.2f} % differ, more than the {limits.max_different:g} % allowed")
    if interval.high < -limits.max_net_loss:
        broken.append(f"the loss exceeds {limits.max_net_loss:g} points")
    elif interval.low < -limits.max_net_loss:
        open_.append(f"a loss of more than {limits.max_net_loss:g} points is not ruled out")
    return broken, open_


def statistical(
    before: OutputSet, after: OutputSet, extractor: Extractor, limits: Limits
) -> Verdict:
    """Demand that aggregate scores agree within the margin, over slices drawn anew on each side.

    The two sets need not hold the same items: each is a sample of its clusters. What they share
    must be asked alike.

    Raises:
        OutputsError: If an item of both sets asks something else in the second.
    """
    gaps = ["repeats: one run a side; the interval is over slices", *_unshared(before, after)]
    sides = [_slices(side, extractor) for side in (before, after)]
    difference = 100 * (_share(sides[1]) - _share(sides[0]))
    interval = _difference_interval(sides)
    if interval is None:
        answer: Answer = "undetermined"
        rest = f"no interval: fewer than {MIN_CLUSTERS} slices on a side"
        gaps.append(rest)
    else:
        answer = _within(interval, limits.margin)
        gaps += _without_spread(sides)
        rest = f"interval {interval.low:+.2f} to {interval.high:+.2f}, margin {limits.margin:g}"
    records = compare_provenance(before, after)
    gaps += records.not_evaluated
    return Verdict(
        contract="statistical",
        answer=answer,
        sentence=f"The scores differ by {difference:+.2f} points; {rest}.",
        numbers={
            "before": _share(sides[0]),
            "after": _share(sides[1]),
            "difference_points": difference,
            "interval": asdict(interval) if interval else None,
            "margin": limits.margin,
            "records": records.outcome,
        },
        not_evaluated=tuple(gaps),
    )


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


def _unshared(before: OutputSet, after: OutputSet) -> list[str]:
    """Say how many items only one set holds."""
    shared = len(shared_pairs(before, after))
    either = len({item.id for item in (*before.items, *after.items)})
    return [f"items: {shared} of {either} shared"] if shared < either else []


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


Contract = Callable[[OutputSet, OutputSet, Extractor, Limits], Verdict]
CONTRACTS: dict[str, Contract] = {
    "bitwise": bitwise,
    "task": task,
    "statistical": statistical,
}
