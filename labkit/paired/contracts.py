"""Three things that *reproducible* can mean, each with its own test.

Bitwise: the same tokens. Task: the paired outcomes stay within limits that were declared before.
Statistical: the aggregate score stays within a declared margin, whatever single items do. A
verdict names what it did not look at, and one that cannot be reached is no pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from labkit.outputs import OutputSet
from labkit.paired.aggregates import statistical
from labkit.paired.impact import Impact, compared_by, has_tokens, measure_impact, same_output
from labkit.paired.intervals import Interval, hull
from labkit.paired.limits import Limits
from labkit.paired.pairs import pair_outputs
from labkit.paired.records import compare_provenance
from labkit.paired.verdict import Answer, Verdict
from labkit.record import SAME_ARTEFACT
from labkit.scoring import Extractor


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


Contract = Callable[[OutputSet, OutputSet, Extractor, Limits], Verdict]
CONTRACTS: dict[str, Contract] = {
    "bitwise": bitwise,
    "task": task,
    "statistical": statistical,
}
