"""Probes 6 and 7 and their kin: options of `generate` that may not do what they say."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from labkit.probes._capture import attempt
from labkit.probes._registry import ProbeContext, probe
from labkit.probes._result import Evidence
from labkit.probes._subjects import Subject, generation_subject
from labkit.probes.libraries import transformers_library

if TYPE_CHECKING:
    import torch

TEMPERATURE = 0.5
TOP_P = 1.5
SCORE_TOLERANCE = 0.02  # of a score; a 16-bit division rounds by under a hundredth


@probe(
    "right_padding_in_a_batch",
    number=6,
    asks="a batch of two prompts of different lengths, padded on the right",
    needs=("model", "tokenizer"),
)
def right_padding_in_a_batch(context: ProbeContext) -> Evidence:
    """Compare the padded first row with its run alone; left padding is the control."""
    subject = generation_subject(context)
    alone = subject.generate(subject.short)
    expected = subject.new_tokens(alone, prompt_tokens=subject.short.shape[1])
    control = attempt(lambda: _first_row_padded(subject, side="left"))
    asked = attempt(lambda: _first_row_padded(subject, side="right"))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value == expected,
        effect="whether the padded first row continues as the same prompt does alone",
        measured={
            "alone": expected,
            "padded_right": asked.value,
            "padded_left": control.value,
        },
        stand_in=subject.stand_in,
    )


@probe(
    "temperature_without_sampling",
    number=7,
    asks=f"a temperature of {TEMPERATURE} with sampling off",
    needs=("model", "tokenizer"),
)
def temperature_without_sampling(context: ProbeContext) -> Evidence:
    """Look for the temperature in the scores that the next token was chosen from."""
    subject = generation_subject(context)
    seen = {
        "max_new_tokens": 2,
        "min_new_tokens": 2,
        "output_scores": True,
        "output_logits": True,
    }
    control = attempt(lambda: subject.generate(subject.longer, **seen))
    asked = attempt(lambda: subject.generate(subject.longer, temperature=TEMPERATURE, **seen))
    if asked.value is None:
        return Evidence(attempt=asked, control=control, stand_in=subject.stand_in)
    factor = _score_factor(asked.value.scores[-1], asked.value.logits[-1])
    same = control.value is not None and bool(
        (asked.value.sequences == control.value.sequences).all()
    )
    return Evidence(
        attempt=asked,
        control=control,
        did_it=abs(factor * TEMPERATURE - 1) < SCORE_TOLERANCE,
        effect="whether the scores are the logits divided by the temperature",
        measured={
            "score_over_logit": round(factor, 3),
            "expected_score_over_logit": 1 / TEMPERATURE,
            "same_tokens_as_without": same,
        },
        stand_in=subject.stand_in,
    )


@probe(
    "top_p_out_of_range",
    asks=f"sampling with top_p {TOP_P}, outside (0, 1]",
)
def top_p_out_of_range(context: ProbeContext) -> Evidence:
    """Look for tokens that top_p took out of the choice."""
    subject = generation_subject(ProbeContext(device=context.device))
    # with min_new_tokens, generate itself would remove the end token from the choice
    options = {"do_sample": True, "top_k": 0, "min_new_tokens": None, "output_scores": True}
    control = attempt(lambda: subject.generate(subject.longer, top_p=0.5, **options))
    asked = attempt(lambda: subject.generate(subject.longer, top_p=TOP_P, **options))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value is not None and _tokens_removed(asked.value.scores) > 0,
        effect="whether the option narrowed the choice of any token; 0.5 is the control",
        measured={
            "removed": None if asked.value is None else _tokens_removed(asked.value.scores),
            "removed_at_0.5": control.value and _tokens_removed(control.value.scores),
        },
        stand_in=subject.stand_in,
    )


@probe("misspelt_generation_option", asks="a generation config with the option `temprature`")
def misspelt_generation_option(context: ProbeContext) -> Evidence:
    """Write an option's name wrong and look whether any option moved."""
    del context
    asked = attempt(lambda: transformers_library().GenerationConfig(temprature=TEMPERATURE))
    temperature = getattr(asked.value, "temperature", None)
    return Evidence(
        attempt=asked,
        did_it=temperature == TEMPERATURE,
        effect="whether the temperature in the config became the one that was written",
        measured={
            "temperature": temperature,
            "kept_under_the_wrong_name": getattr(asked.value, "temprature", None),
        },
    )


def _first_row_padded(subject: Subject, *, side: str) -> list[int]:
    """Generate from both prompts in one batch and return the first row's new tokens."""
    import torch

    missing = subject.longer.shape[1] - subject.short.shape[1]
    pads = torch.full_like(subject.longer[:, :missing], subject.pad_id)
    here, gone = torch.ones_like(subject.short), torch.zeros_like(pads)
    row, row_mask = _joined(pads, subject.short, side), _joined(gone, here, side)
    output = subject.generate(
        torch.cat([row, subject.longer]),
        attention_mask=torch.cat([row_mask, torch.ones_like(subject.longer)]),
    )
    return subject.new_tokens(output, prompt_tokens=subject.longer.shape[1])


def _joined(padding: torch.Tensor, row: torch.Tensor, side: str) -> torch.Tensor:
    import torch

    return torch.cat([padding, row] if side == "left" else [row, padding], dim=1)


def _score_factor(scores: torch.Tensor, logits: torch.Tensor) -> float:
    """Return the median of score / logit over the tokens that are neither removed nor near 0."""
    import torch

    usable = torch.isfinite(scores) & (logits.abs() > 1e-3)
    factors: list[float] = (scores[usable] / logits[usable]).float().tolist()
    return statistics.median(factors)


def _tokens_removed(scores: tuple[torch.Tensor, ...]) -> int:
    """Count the tokens whose score was set to minus infinity, over all steps."""
    return sum(int(step.isneginf().sum()) for step in scores)
