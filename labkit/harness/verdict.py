"""The verdict: does an option's distance from the function shrink with the arithmetic?

Two measurements, no tuned threshold. The *rounding ratio* says how far a variant is from a
run in higher precision, in units of the baseline's own distance from it. The *slope* says
how much of the baseline's shrinking the variant shares when the precision is raised: 1 means
that the difference is arithmetic and shrinks with it, 0 that it stays where it is. What lies
nearer to 1 only reorders arithmetic; what lies nearer to 0 changes the function; where the
interval over prompts holds both, the verdict is *undetermined*.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.harness.compare import Run, significant
from labkit.harness.traces import Baseline

PRESERVING = "preserving"
DIFFERENT = "different artefact"
UNDETERMINED = "undetermined"

RESAMPLES = 2000
COVERAGE = 0.95

UNIT_ROUNDOFF = {
    "bfloat16": 2.0**-8,
    "float16": 2.0**-11,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with the bounds of its interval over prompts."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One option at one precision.

    Attributes:
        precision: The dtype of baseline and variant.
        runs: The option's runs, by prompt name.
        baselines: The baselines they were compared with, by prompt name.
    """

    precision: str
    runs: Mapping[str, Run]
    baselines: Mapping[str, Baseline]

    def ratio(self) -> Interval | None:
        """Return the rounding ratio: the median over prompts of each prompt's median step.

        `None` where the baseline equals its reference, so that there is no yardstick.
        """
        each = [r for name in self.runs if (r := self._prompt_ratio(name)) is not None]
        return over_prompts(each)

    def _prompt_ratio(self, prompt: str) -> float | None:
        errors = self.baselines[prompt].error_rms
        steps = [d / e for d, e in zip(self.runs[prompt].distance, errors, strict=True) if e > 0]
        return statistics.median(steps) if steps else None

    def distances(self, prompt: str) -> tuple[float, float] | None:
        """Return the prompt's typical distances from the reference: variant's, baseline's.

        Geometric means over steps; `None` if either is exactly zero.
        """
        variant = np.asarray(self.runs[prompt].distance)
        base = np.asarray(self.baselines[prompt].error_rms)
        if not (variant > 0).all() or not (base > 0).all():
            return None
        return float(np.exp(np.log(variant).mean())), float(np.exp(np.log(base).mean()))


def over_prompts(values: Sequence[float]) -> Interval | None:
    """Return the median with its bootstrap interval; the unit that is resampled is a prompt."""
    if not values:
        return None
    sample = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(0).choice(sample, size=(RESAMPLES, len(sample)))
    tail = (1 - COVERAGE) / 2
    low, high = np.quantile(np.median(drawn, axis=1), [tail, 1 - tail])
    return Interval(
        value=significant(float(np.median(sample))),
        low=significant(float(low)),
        high=significant(float(high)),
    )


def slope(coarse: Lane, fine: Lane) -> Interval | None:
    """Return how much of the baseline's shrinking from `coarse` to `fine` an option shares."""
    each: list[float] = []
    for prompt in coarse.runs.keys() & fine.runs.keys():
        before, after = coarse.distances(prompt), fine.distances(prompt)
        if before is None or after is None:
            continue
        shrink, base_shrink = np.log(before[0] / after[0]), np.log(before[1] / after[1])
        each.append(float(shrink / base_shrink))
    return over_prompts(sorted(each))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verdict with its numbers, and one sentence that states both."""

    verdict: str
    sentence: str
    slope: Interval | None


def judge(lanes: Sequence[Lane], *, declared: str | None = None) -> Verdict:
    """Decide what an option is, from its lanes.

    Args:
        lanes: The option at one or more precisions, coarsest first.
        declared: What is known of an option that declares its own precision: a sentence
            without a full stop, given only where the cast altered no weight.

    Returns:
        The verdict. One precision alone leaves it undetermined.
    """
    if declared is not None:
        return Verdict(verdict=PRESERVING, sentence=f"Preserving: {declared}.", slope=None)
    measured = "; ".join(filter(None, (_ratio_words(lane) for lane in lanes)))
    found = slope(lanes[0], lanes[-1]) if len(lanes) > 1 else None
    if found is None:
        return Verdict(
            verdict=UNDETERMINED,
            sentence=f"Undetermined: {measured}; it ran at one precision only, and a run at a "
            "second one would settle it.",
            slope=None,
        )
    numbers = f"{measured}; slope {found.value:.2f}, {found.low:.2f} to {found.high:.2f}"
    if found.low > 0.5:
        verdict, says = PRESERVING, "its distance shrinks with the arithmetic"
    elif found.high < 0.5:
        verdict, says = DIFFERENT, "its distance stays when the arithmetic gets finer"
    else:
        verdict, says = UNDETERMINED, "its slope is not on one side; more prompts would settle it"
    return Verdict(
        verdict=verdict, sentence=f"{verdict.capitalize()}: {says} ({numbers}).", slope=found
    )


def _ratio_words(lane: Lane) -> str:
    ratio = lane.ratio()
    if ratio is None:
        return ""
    return f"rounding ratio {ratio.value:,.4g} in {lane.precision}"


def summarise_knob(runs: Sequence[Run], *, steps: int) -> dict[str, Any]:
    """Reduce an option's runs to a row: counts, places, margins.

    Args:
        runs: One a prompt.
        steps: Tokens each output has.

    Returns:
        Plain JSON values; a mean or a maximum over no divergence is `None`.
    """
    flips = [run for run in runs if run.first_divergence is not None]
    places = [run.first_divergence / steps for run in flips if run.first_divergence is not None]
    margins = [r.margin_at_divergence for r in flips if r.margin_at_divergence is not None]
    return {
        "runs": len(runs),
        "identical": len(runs) - len(flips),
        "diverged": len(flips),
        "mean_first_divergence_share": significant(statistics.fmean(places)) if places else None,
        "max_margin_at_divergence": max(margins) if margins else None,
        "exact_ties": sum(margin == 0 for margin in margins),
        "arithmetic_decided": sum(bool(run.arithmetic_decides) for run in flips),
        "max_rank": max((run.rank for run in flips if run.rank is not None), default=None),
        "max_logit_change": max((run.logit_change for run in runs), default=None),
        "kl_mean": significant(statistics.fmean(k for run in runs for k in run.kl))
        if runs
        else None,
        "kl_max": max((k for run in runs for k in run.kl), default=None),
    }
