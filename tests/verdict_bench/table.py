"""Records to rows, rows to counts: plain JSON values."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from labkit.harness import judge
from labkit.harness.compare import significant
from labkit.harness.verdict import DIFFERENT, PRESERVING, UNDETERMINED
from verdict_bench.cases import CHANGE, DEFECT, PRESERVE
from verdict_bench.criteria import CRITERIA, ask
from verdict_bench.readings import judge_slope, judge_staying
from verdict_bench.running import PRECISIONS, Record

SLOPE = "slope"
OURS = "growth"
REMAINDER = "float64 remainder"
"""`growth` is the rule by which the lab decides; the other two read the same runs otherwise."""

KL_CUTS = tuple(10.0**-power for power in range(1, 13))
FINEST = PRECISIONS[-1]
PARTNER = {"bfloat16": "float32", "float16": "float32", "float32": "bfloat16"}
"""The second lane that a baseline of each precision is judged with."""


def rows_of(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return one row for each case on a subject at each precision."""
    return [_row(r, precision) for r in records if r.refused is None for precision in PRECISIONS]


def _row(record: Record, precision: str) -> dict[str, Any]:
    truth = record.case.truth_on(record.subject.traits)
    measured = record.at[precision]
    ratio = measured.lane.ratio()
    effect = _effect(record, FINEST)
    pair = sorted((precision, PARTNER[precision]), key=PRECISIONS.index)
    coarse, fine = (record.at[name].lane for name in pair)
    verdict = judge([coarse, fine])
    grown = verdict.growth
    runs = list(measured.lane.runs.values())
    seen = [measured.seen[run.prompt] for run in runs]
    ours = {
        SLOPE: judge_slope(coarse, fine),
        OURS: verdict.verdict,
        REMAINDER: judge_staying(coarse, record.at[FINEST].lane, record.exact),
    }
    answers = ours | {name: ask(name, runs, seen) for name in CRITERIA}
    return {
        "subject": record.subject.name,
        "case": record.case.name,
        "truth": truth,
        "precision": precision,
        "should_be": PRESERVING if truth == PRESERVE else DIFFERENT,
        "small": truth != PRESERVE and effect is not None and effect < 1,
        "effect": effect,
        "effect_here": _effect(record, precision),
        "ratio": ratio.value if ratio else None,
        "ratio_low": ratio.low if ratio else None,
        "ratio_high": ratio.high if ratio else None,
        "slope": verdict.slope.value if verdict.slope else None,
        "slope_low": verdict.slope.low if verdict.slope else None,
        "slope_high": verdict.slope.high if verdict.slope else None,
        "growth": grown.value if grown else None,
        "growth_low": grown.low if grown else None,
        "growth_high": grown.high if grown else None,
        "kl_mean": significant(statistics.fmean(k for run in runs for k in run.kl)),
        "identical": sum(run.identical for run in runs),
        "runs": len(runs),
        "answers": answers,
    }


def _effect(record: Record, precision: str) -> float | None:
    """Return what stays in float64, in units of the baseline's rounding at a precision."""
    baselines = record.at[precision].lane.baselines
    each = [
        statistics.median(d / e for d, e in zip(steps, baselines[name].error_rms, strict=True))
        for name, steps in record.exact.items()
        if (baselines[name].error_rms > 0).all()
    ]
    return significant(statistics.median(each)) if each else None


def counts_of(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return how often each criterion was right, wrong (which way) and undetermined."""
    return {name: _count([row for row in rows if not row["small"]], name) for name in _names()}


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return subjects, cases by truth, and the counts of each criterion, in all and by subject."""
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    return {
        "subjects": subjects,
        "cases": {
            truth: len({row["case"] for row in rows if row["truth"] == truth})
            for truth in (PRESERVE, CHANGE, DEFECT)
        },
        "too_small": sum(row["small"] for row in rows),
        "criteria": counts_of(rows),
        "mean_kl_wrong_by_cut": {f"{cut:g}": _kl_wrong(rows, cut) for cut in KL_CUTS},
        "by_subject": {n: counts_of([r for r in rows if r["subject"] == n]) for n in subjects},
    }


def _kl_wrong(rows: Sequence[dict[str, Any]], cut_nats: float) -> int:
    """Return how many decisions a cut on the mean KL divergence gets wrong."""
    counted = [row for row in rows if not row["small"]]
    return sum((r["kl_mean"] < cut_nats) != (r["should_be"] == PRESERVING) for r in counted)


def _names() -> list[str]:
    return [SLOPE, OURS, REMAINDER, *CRITERIA]


def _count(rows: Sequence[dict[str, Any]], name: str) -> dict[str, int]:
    tally: Counter[str] = Counter()
    for row in rows:
        answer = row["answers"][name]
        if answer == UNDETERMINED:
            tally["undetermined"] += 1
        elif answer == row["should_be"]:
            tally["right"] += 1
        elif answer == DIFFERENT:
            tally["false_alarms"] += 1
        else:
            tally["missed"] += 1
            # Its part that stays is smaller here than what the baseline itself is off by.
            tally["missed_below_rounding"] += (row["effect_here"] or 1) < 1
    keys = ("right", "false_alarms", "missed", "missed_below_rounding", "undetermined")
    return {"decisions": len(rows)} | {key: int(tally[key]) for key in keys}


def printed(summary: dict[str, Any]) -> str:
    """Return the counts as a table for people."""
    head = f"{'criterion':18}{'right':>8}{'wrong':>8}{'false alarm':>13}{'missed':>8}{'undet.':>8}"
    lines = [head]
    for name, count in summary["criteria"].items():
        wrong = count["false_alarms"] + count["missed"]
        lines.append(
            f"{name:18}{count['right']:8}{wrong:8}{count['false_alarms']:13}{count['missed']:8}"
            f"{count['undetermined']:8}"
        )
    return "\n".join(lines)
