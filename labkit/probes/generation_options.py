"""Probes 6 and 7 and their kin: options of `generate` that may not do what they say."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from labkit.probes._capture import attempt
from labkit.probes._registry import ProbeContext, probe
from labkit.probes._result import Evidence, not_askable
from labkit.probes._subjects import NEW_TOKENS, Subject, generation_subject
from labkit.probes.libraries import transformers_library
from labkit.probes.stand_ins import tiny_llama, tiny_tokenizer

if TYPE_CHECKING:
    import torch

TEMPERATURE = 0.5
TOP_P = 1.5
HOT = 5.0  # a temperature at which two seeds do not agree by chance
PENALTY = 5.0
TOTAL_TOKENS = 30
MORE_NEW_TOKENS = 40
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


@probe(
    "sampling_inherited_from_the_checkpoint",
    asks="greedy decoding, by naming no sampling option, of a checkpoint whose generation config "
    "samples",
)
def sampling_inherited_from_the_checkpoint(context: ProbeContext) -> Evidence:
    """Ask for nothing but a length and look whether two seeds give two answers."""
    subject = generation_subject(ProbeContext(device=context.device))
    control = attempt(lambda: _with_two_seeds(subject, do_sample=False))
    subject.model.generation_config.do_sample = True
    subject.model.generation_config.temperature = HOT
    asked = attempt(lambda: _with_two_seeds(subject))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value is not None and asked.value == control.value,
        effect="whether the tokens are the greedy ones, under each of two seeds",
        measured={"greedy": control.value, "named_nothing": asked.value},
        stand_in=subject.stand_in,
    )


@probe(
    "two_length_limits",
    asks=f"a limit of {TOTAL_TOKENS} tokens in all, beside one of {MORE_NEW_TOKENS} new ones",
)
def two_length_limits(context: ProbeContext) -> Evidence:
    """Give both limits to `generate` and count the tokens."""
    subject = generation_subject(ProbeContext(device=context.device))
    limits = {"max_new_tokens": MORE_NEW_TOKENS, "min_new_tokens": None, "eos_token_id": None}
    control = attempt(lambda: _length(subject, **limits))
    asked = attempt(lambda: _length(subject, max_length=TOTAL_TOKENS, **limits))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value is not None and asked.value <= TOTAL_TOKENS,
        effect="how many tokens there are in the end, prompt and answer",
        measured={"asked_tokens": TOTAL_TOKENS, "tokens": asked.value},
        stand_in=subject.stand_in,
    )


@probe(
    "total_length_through_the_pipeline",
    asks=f"a text-generation pipeline with a limit of {TOTAL_TOKENS} tokens in all",
)
def total_length_through_the_pipeline(context: ProbeContext) -> Evidence:
    """Give the limit to a pipeline, which has one of its own, and count the tokens."""
    del context
    control = attempt(lambda: _length_through_pipeline(max_new_tokens=NEW_TOKENS))
    asked = attempt(lambda: _length_through_pipeline(max_length=TOTAL_TOKENS))
    untold = attempt(_length_through_pipeline)
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value == TOTAL_TOKENS,
        effect="how many tokens there are in the end, prompt and answer",
        measured={
            "asked_tokens": TOTAL_TOKENS,
            "tokens": asked.value,
            "tokens_without_a_limit": untold.value,
        },
        stand_in="a tiny random Llama and a tiny tokenizer",
    )


@probe(
    "penalty_while_speculating",
    asks=f"a repetition penalty of {PENALTY:g}, with an assistant model drafting the tokens",
)
def penalty_while_speculating(context: ProbeContext) -> Evidence:
    """Compare the tokens with those of the same penalty without an assistant."""
    subject = generation_subject(ProbeContext(device=context.device))
    penalty = {"repetition_penalty": PENALTY}
    control = attempt(lambda: _tokens(subject, **penalty))
    asked = attempt(lambda: _tokens(subject, assistant_model=tiny_llama(), **penalty))
    without = attempt(lambda: _tokens(subject))
    if control.value == without.value:
        return not_askable("the penalty moves no token of this prompt, so it cannot be missed")
    kept = asked.value is not None and asked.value == control.value
    return Evidence(
        attempt=asked,
        control=control,
        did_it=kept,
        effect="whether the tokens are those of the penalty without an assistant",
        measured={
            "dropped": [] if kept else ["repetition_penalty"],
            "with_assistant": asked.value,
            "without_assistant": control.value,
            "without_penalty": without.value,
        },
        stand_in=subject.stand_in,
    )


def _tokens(subject: Subject, **options: Any) -> list[int]:
    """Generate a fixed number of tokens without a least length, which some releases refuse here."""
    options = {"min_new_tokens": None, "eos_token_id": None, **options}
    output = subject.generate(subject.longer, **options)
    return subject.new_tokens(output, prompt_tokens=subject.longer.shape[1])


def _with_two_seeds(subject: Subject, **options: Any) -> list[list[int]]:
    """Generate with nothing but these options and a length, under two seeds."""
    import torch

    answers = []
    for seed in (0, 1):
        with torch.random.fork_rng(), torch.inference_mode():
            torch.manual_seed(seed)
            ids = subject.longer
            mask = torch.ones_like(ids)
            output = subject.model.generate(
                ids, attention_mask=mask, max_new_tokens=NEW_TOKENS, **options
            )
        answers.append(output[0, ids.shape[1] :].tolist())
    return answers


def _length(subject: Subject, **options: Any) -> int:
    return int(subject.generate(subject.longer, **options).sequences.shape[1])


def _length_through_pipeline(**options: Any) -> int:
    """Return the tokens of a pipeline's answer, prompt included, with no end token to stop it."""
    model = tiny_llama(positions=1024)
    model.generation_config.eos_token_id = None
    pipe = transformers_library().pipeline(
        "text-generation", model=model, tokenizer=tiny_tokenizer()
    )
    answer = pipe("abc", do_sample=False, return_tensors=True, **options)
    return len(answer[0]["generated_token_ids"])


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
