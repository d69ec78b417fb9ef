"""The verdict: does an option's distance from the function shrink with the arithmetic?

Two measurements, no threshold fitted to any model. The *rounding ratio* says how far a variant
is from a run in higher precision, in units of the baseline's own distance from it. The *growth*
says by how much that ratio rises when the precision is raised. What only reorders arithmetic
shrinks as the baseline does, so its ratio does not grow; what changes the function stays, and
adds to the rounding as squares add. At a growth of the square root of two, the part that stays
equals the part that shrinks: below it an option is *preserving*, above it a *different artefact*,
and where the interval over prompts holds that point the verdict is *undetermined*. The *slope*
reports the same on a scale from 1 (all shrinks) to 0 (all stays).
"""

from __future__ import annotations

import math
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

EQUAL_PARTS = math.sqrt(2)
"""Growth at which the part that stays equals the part that shrinks: they add as squares."""

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
    """An estimate, with the bounds of its interval over prompts where there are two or more."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{in_words(self.value)} on one prompt"
        return f"{in_words(self.value)}, {in_words(self.low)} to {in_words(self.high)}"


def in_words(value: float) -> str:
    """Return a number as a sentence states it: two decimals below ten, else three digits."""
    if abs(value) < 10:
        return f"{round(value, 2) + 0.0:.2f}"  # adding zero turns -0.0 into 0.0
    shown = float(f"{value:.3g}")
    return f"{shown:,.0f}" if abs(shown) >= 100 else f"{shown:.3g}"


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
    """Return the median with its bootstrap interval; the unit that is resampled is a prompt.

    One prompt says nothing about the spread over prompts, so it has no interval.
    """
    if not values:
        return None
    if len(values) == 1:
        return Interval(value=significant(values[0]), low=None, high=None)
    sample = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(0).choice(sample, size=(RESAMPLES, len(sample)))
    tail = (1 - COVERAGE) / 2
    low, high = np.quantile(np.median(drawn, axis=1), [tail, 1 - tail])
    return Interval(
        value=significant(float(np.median(sample))),
        low=significant(float(low)),
        high=significant(float(high)),
    )


def growth(coarse: Lane, fine: Lane) -> Interval | None:
    """Return how much the rounding ratio grows from a coarser to a finer precision.

    An option that is more exact than the baseline in the coarse lane (one that adds in float32,
    say) owes nothing for it in the fine one: its ratio there counts as 1.
    """
    return over_prompts([grown for grown, _ in _growths(coarse, fine).values()])


def _growths(coarse: Lane, fine: Lane) -> dict[str, tuple[float, float]]:
    """Return each prompt's growth, and what it would be if the whole distance stayed."""
    each: dict[str, tuple[float, float]] = {}
    for prompt in sorted(coarse.runs.keys() & fine.runs.keys()):
        before, after = coarse.distances(prompt), fine.distances(prompt)
        if before is not None and after is not None:
            grown = (after[0] / after[1]) / max(1.0, before[0] / before[1])
            each[prompt] = grown, before[1] / after[1]
    return each


def staying_prompts(coarse: Lane, fine: Lane) -> list[str]:
    """Return the prompts on which a distance plainly stays, whatever it does on the others.

    Plainly is past half the decades between all shrinks and all stays: noise moves a single
    prompt about the boundary, and never that far.
    """
    growths = _growths(coarse, fine).items()
    return [prompt for prompt, (grown, most) in growths if most > 1 and grown > math.sqrt(most)]


def slope(coarse: Lane, fine: Lane) -> Interval | None:
    """Return how much of the baseline's shrinking from `coarse` to `fine` an option shares."""
    each: list[float] = []
    for prompt in coarse.runs.keys() & fine.runs.keys():
        before, after = coarse.distances(prompt), fine.distances(prompt)
        if before is None or after is None:
            continue
        shrink, base_shrink = np.log(before[0] / after[0]), np.log(before[1] / after[1])
        if base_shrink > 0:  # a baseline that does not get closer is no yardstick
            each.append(float(shrink / base_shrink))
    return over_prompts(sorted(each))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verdict with its numbers, and one sentence that states both."""

    verdict: str
    sentence: str
    growth: Interval | None = None
    slope: Interval | None = None


def judge(
    lanes: Sequence[Lane], *, declared: str | None = None, altered: str | None = None
) -> Verdict:
    """Decide what an option is, from its lanes.

    Args:
        lanes: The option at one or more precisions, coarsest first.
        declared: What is known of an option that declares its own precision: a sentence
            without a full stop, given only where the cast altered no weight.
        altered: What such an option's cast altered, given only where it did: other weights are
            another artefact, however coarse the arithmetic that hides them.

    Returns:
        The verdict. One precision alone leaves it undetermined.
    """
    if altered is not None:
        return Verdict(verdict=DIFFERENT, sentence=f"Different artefact: {altered}.")
    if declared is not None:
        return Verdict(verdict=PRESERVING, sentence=f"Preserving: {declared}.")
    pair = (lanes[0], lanes[-1]) if len(lanes) > 1 else None
    found = growth(*pair) if pair else None
    stays = staying_prompts(*pair) if pair else []
    verdict, says = _decide(found, stays, precisions=len(lanes))
    measured = [words for lane in lanes if (words := _ratio_words(lane))]
    numbers = "; ".join([*measured, *([f"growth {found}"] if found else [])])
    stated = f" ({numbers})" if numbers else ""
    return Verdict(
        verdict=verdict,
        sentence=f"{verdict.capitalize()}: {says}{stated}.",
        growth=found,
        slope=slope(*pair) if pair else None,
    )


def _decide(found: Interval | None, stays: Sequence[str], *, precisions: int) -> tuple[str, str]:
    """Return the verdict of a growth, and why; what cannot be decided says what would settle it.

    A median over prompts is silent about the few. A bound that only one prompt in ten reaches
    changes the function there, so such prompts are named and the option is not preserving.
    """
    if precisions < 2:
        return UNDETERMINED, "it ran at one precision only, and a run at a second would settle it"
    if found is None:
        return UNDETERMINED, (
            "a distance of exactly zero has no ratio; longer outputs or other prompts would "
            "settle it"
        )
    if found.low is None or found.high is None:
        return UNDETERMINED, "it ran on one prompt only, and a second one would settle it"
    if found.low > EQUAL_PARTS:
        return DIFFERENT, "its distance stays when the arithmetic gets finer"
    if stays:
        return UNDETERMINED, (
            f"its distance stays on {len(stays)} of its prompts (such as {stays[0]}) and shrinks "
            "on others; more prompts like these would settle it"
        )
    if found.high < EQUAL_PARTS:
        return PRESERVING, "its distance shrinks with the arithmetic"
    return UNDETERMINED, (
        "as much of its distance may stay as shrinks; more prompts would settle it"
    )


def _ratio_words(lane: Lane) -> str:
    ratio = lane.ratio()
    if ratio is None:
        return ""
    return f"rounding ratio {in_words(ratio.value)} in {lane.precision}"


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
        **_describe_kl([k for run in runs for k in run.kl]),
    }


def _describe_kl(steps: Sequence[float]) -> dict[str, float | None]:
    """Return the mean of a KL divergence over all steps, its tails and its largest value."""
    if not steps:
        return dict.fromkeys(("kl_mean", "kl_p01", "kl_p99", "kl_max"))
    low, high = np.quantile(steps, [0.01, 0.99])
    return {
        "kl_mean": significant(statistics.fmean(steps)),
        "kl_p01": significant(float(low)),
        "kl_p99": significant(float(high)),
        "kl_max": max(steps),
    }
