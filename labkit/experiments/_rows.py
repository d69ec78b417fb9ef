"""Lanes to the rows, runs and summary of the preservation section: plain JSON values."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labkit.errors import NotApplicable, NotApplied
from labkit.harness import Baseline, Lane, Run, judge, near_tie_share, summarise_knob
from labkit.harness.compare import OWN_TOKENS, significant
from labkit.harness.verdict import UNIT_ROUNDOFF, Verdict
from labkit.knobs import Option

CONTEXT_TOKENS = 32
"""Tokens before a first difference that are kept to show it in context."""
EXPECTED = {"runtime": "preserving", "control": "preserving", "model": "different artefact"}


def declare(
    exact: str | None, lanes: Sequence[Lane], *, plain: Mapping[str, Baseline] | None
) -> str | None:
    """Return what holds of an option that declares another arithmetic and an exact cast.

    Its unit is the plain run in that arithmetic, which is the reference of the first lane: it
    must lie no further from it than that plain run lies from a still finer one.

    Args:
        exact: The sentence on the cast, or None where it altered a weight.
        lanes: The option's lanes.
        plain: The baselines of the lane in the declared arithmetic, where there is one.
    """
    if exact is None or not lanes:
        return None
    furthest = max(max(run.distance) for run in lanes[0].runs.values())
    allowed = max((float(b.error_rms.max()) for b in (plain or {}).values()), default=0.0)
    if furthest > allowed:
        return None
    return f"{exact}, and it lies within {furthest:.3g} logits of the plain run in it"


def option_row(
    option: Option,
    lanes: Sequence[Lane],
    *,
    declared: str | None,
    altered: str | None = None,
    refused: NotApplicable | NotApplied | None,
) -> dict[str, Any]:
    """Return an option's row of the preservation table."""
    head = {
        "knob": option.slug,
        "option": option.spelled,
        "kind": option.kind,
        "label": option.label,
        "params": dict(option.params),
    }
    if refused is not None or not lanes:
        verdict = "not applied" if isinstance(refused, NotApplied) else "not applicable"
        return head | summarise_knob([], steps=1) | _no_numbers(verdict, str(refused))
    runs = list(lanes[0].runs.values())
    steps = len(runs[0].picks)
    return head | summarise_knob(runs, steps=steps) | _judged(lanes, declared, altered)


def _judged(lanes: Sequence[Lane], declared: str | None, altered: str | None) -> dict[str, Any]:
    found: Verdict = judge(lanes, declared=declared, altered=altered)
    ratio = lanes[0].ratio()
    fine = lanes[1].ratio() if len(lanes) > 1 else None
    if declared is not None:
        # The reference is the same computation, so its distance of zero would say nothing.
        ratio = None
    return {
        "declared": declared is not None or altered is not None,
        "ratio": ratio.value if ratio else None,
        "ratio_low": ratio.low if ratio else None,
        "ratio_high": ratio.high if ratio else None,
        "ratio_float32": fine.value if fine else None,
        "growth": found.growth.value if found.growth else None,
        "growth_low": found.growth.low if found.growth else None,
        "growth_high": found.growth.high if found.growth else None,
        "slope": found.slope.value if found.slope else None,
        "slope_low": found.slope.low if found.slope else None,
        "slope_high": found.slope.high if found.slope else None,
        "verdict": found.verdict,
        "sentence": found.sentence,
    }


def _no_numbers(verdict: str, why: str) -> dict[str, Any]:
    bounded = [f"{name}{end}" for name in ("growth", "slope") for end in ("", "_low", "_high")]
    keys = ("ratio", "ratio_low", "ratio_high", "ratio_float32", *bounded)
    sentence = f"{verdict.capitalize()}: {why}"
    return {"declared": False, **dict.fromkeys(keys), "verdict": verdict, "sentence": sentence}


def run_rows(
    option: Option, lanes: Sequence[Lane], decode: Callable[[Sequence[int]], str]
) -> list[dict[str, Any]]:
    """Return the runs of an option's first lane, one row a prompt."""
    if not lanes:
        return []
    rows = []
    for run in lanes[0].runs.values():
        errors = lanes[0].baselines[run.prompt].error_rms
        ratios = [d / e for d, e in zip(run.distance, errors, strict=True) if e > 0]
        rows.append(
            {
                "knob": option.slug,
                "kind": option.kind,
                "label": option.label,
                "prompt": run.prompt,
                "identical": run.identical,
                "first_divergence": run.first_divergence,
                "margin_at_divergence": run.margin_at_divergence,
                "rank": run.rank,
                "baseline_token": _text(run.baseline_token, decode),
                "variant_token": _text(run.variant_token, decode),
                "context": _context(run, lanes[0].baselines[run.prompt], decode),
                "arithmetic_decides": run.arithmetic_decides,
                "logit_change": run.logit_change,
                "ratio": significant(statistics.median(ratios)) if ratios else None,
                "kl_mean": significant(statistics.fmean(run.kl)),
                "kl_max": max(run.kl),
                "elapsed_s": run.elapsed_s,
            }
        )
    return rows


def _text(token: int | None, decode: Callable[[Sequence[int]], str]) -> str | None:
    return None if token is None else decode([token])


def _context(
    run: Run, baseline: Baseline, decode: Callable[[Sequence[int]], str]
) -> dict[str, Any] | None:
    """Return the texts around a run's first difference, and the best tokens of both there."""
    at = run.first_divergence
    if at is None:
        return None
    tokens = baseline.trace.tokens
    own = run.own_tokens
    logits = zip(run.candidates, run.baseline_logits, run.variant_logits, strict=True)
    return {
        "before": decode([*baseline.ids, *tokens[:at]][-CONTEXT_TOKENS:]),
        "baseline_after": decode(tokens[at + 1 : at + OWN_TOKENS]),
        "variant_after": decode(own[1:]) if own else None,
        "candidates": [
            {"token": decode([token]), "baseline": base, "variant": variant}
            for token, base, variant in logits
        ],
    }


def lane_rows(option: Option, lanes: Sequence[Lane]) -> list[dict[str, Any]]:
    """Return how far an option is from the function at each precision, beside the baseline."""
    rows = []
    for lane in lanes:
        pairs = [pair for name in lane.runs if (pair := lane.distances(name)) is not None]
        ratio = lane.ratio()
        rows.append(
            {
                "knob": option.slug,
                "kind": option.kind,
                "label": option.label,
                "precision": lane.precision,
                "unit_roundoff": UNIT_ROUNDOFF[lane.precision],
                "distance": _geometric_mean([pair[0] for pair in pairs]),
                "baseline_distance": _geometric_mean([pair[1] for pair in pairs]),
                "ratio": ratio.value if ratio else None,
                "ratio_low": ratio.low if ratio else None,
                "ratio_high": ratio.high if ratio else None,
            }
        )
    return rows


def _geometric_mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return significant(math.exp(statistics.fmean(map(math.log, values))))


def summarise(rows: Sequence[dict[str, Any]], margins: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return the section's summary: counts by kind, verdicts, and the baseline's margins."""
    flat = [margin for row in margins for margin in row]
    summary: dict[str, Any] = {}
    for kind in ("runtime", "model", "control"):
        of_kind = [row for row in rows if row["kind"] == kind]
        summary |= {f"{kind}_{key}": value for key, value in _totals(of_kind).items()}
    verdicts = Counter(row["verdict"] for row in rows)
    measured = [row for row in rows if not row["declared"]]
    as_expected = [row for row in measured if row["verdict"] == EXPECTED[row["kind"]]]
    return (
        summary
        | describe_margins(flat)
        | {
            "options": len(rows),
            "preserving": verdicts["preserving"],
            "different_artefact": verdicts["different artefact"],
            "undetermined": verdicts["undetermined"],
            "not_applicable": verdicts["not applicable"] + verdicts["not applied"],
            "measured_verdicts": len(measured),
            "verdicts_as_expected": len(as_expected),
        }
    )


def describe_margins(margins: Sequence[float]) -> dict[str, Any]:
    """Return how sure the baseline was: shares of near-ties, median margin, exact ties."""
    return {
        "share_under_0_1": significant(near_tie_share(margins, 0.1)),
        "share_under_0_5": significant(near_tie_share(margins, 0.5)),
        "median_margin": significant(statistics.median(margins)),
        "baseline_exact_ties": sum(margin == 0 for margin in margins),
    }


def _totals(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    def largest(key: str) -> float | None:
        return max((row[key] for row in rows if row[key] is not None), default=None)

    return {
        "runs": sum(row["runs"] for row in rows),
        "identical": sum(row["identical"] for row in rows),
        "diverged": sum(row["diverged"] for row in rows),
        "exact_ties": sum(row["exact_ties"] for row in rows),
        "arithmetic_decided": sum(row["arithmetic_decided"] for row in rows),
        "max_margin_at_divergence": largest("max_margin_at_divergence"),
        "max_logit_change": largest("max_logit_change"),
        "max_ratio": largest("ratio"),
    }
