"""Options of a completion that may not do what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit.probes._registry import ProbeContext
from labkit.probes._result import Evidence, not_askable
from labkit.probes.llamacpp._asking import TEXT, ask, complete, open_file
from labkit.probes.llamacpp._registry import question
from labkit.probes.llamacpp._stand_ins import write_gguf

_TINY = "a tiny random Llama file"
SEEDS = range(12)
# Every other limit on the choice is taken away, so that only the asked one can narrow it.
_OPEN: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}
TOP_P, MIN_P, NEGATIVE, PENALTY = 1.5, 1.5, -1.0, 5.0
TAIL_FREE = 0.01


def _drawn(path: Path, **options: Any) -> list[list[int]]:
    """Return an answer for each seed, by one file opened for all."""
    llama = open_file(path, n_ctx=256)
    prompt = llama.tokenize(TEXT.encode())
    answers = []
    for seed in SEEDS:
        llama.create_completion(prompt, max_tokens=6, seed=seed, **(_OPEN | options))
        answers.append([int(token) for token in llama.input_ids[len(prompt) : llama.n_tokens]])
    return answers


def _ask_drawn(
    control: dict[str, Any], asked: dict[str, Any], *, did: str, effect: str
) -> Evidence:
    """Compare what is drawn with and without an option under the same seeds."""
    path = write_gguf()
    without = ask(lambda: _drawn(path))
    narrowed = ask(lambda: _drawn(path, **control))
    done = ask(lambda: _drawn(path, **asked))
    if narrowed.value == without.value:
        return not_askable("the control moves no token of this prompt, so nothing can be missed")
    return Evidence(
        attempt=done,
        control=narrowed,
        did_it=done.value is not None and done.value != without.value,
        effect=effect,
        measured={
            "seeds": len(SEEDS),
            f"answers_moved_by_{did}": _moved(done.value, without.value),
            "answers_moved_by_the_control": _moved(narrowed.value, without.value),
        },
        stand_in=_TINY,
    )


def _moved(one: list[list[int]] | None, other: list[list[int]] | None) -> int | None:
    if one is None or other is None:
        return None
    return sum(left != right for left, right in zip(one, other, strict=True))


@question("top_p_out_of_range")
def top_p_out_of_range(context: ProbeContext) -> Evidence:
    """Look for answers that top_p moved; 0.5 is the control."""
    del context
    return _ask_drawn(
        {"top_p": 0.5},
        {"top_p": TOP_P},
        did="the_option",
        effect="whether the option narrowed the choice of any token; 0.5 is the control",
    )


@question("removed_sampling_option", asks=f"sampling with the API's own option tfs_z {TAIL_FREE}")
def removed_sampling_option(context: ProbeContext) -> Evidence:
    """Look for answers that tail-free sampling moved; a min_p of 0.5 is the control."""
    del context
    return _ask_drawn(
        {"min_p": 0.5},
        {"tfs_z": TAIL_FREE},
        did="the_option",
        effect="whether the option moved any answer; a min_p of 0.5 is the control",
    )


@question("min_p_out_of_range", asks=f"sampling with min_p {MIN_P}, which no token can reach")
def min_p_out_of_range(context: ProbeContext) -> Evidence:
    """See what is written where the option leaves no token to choose from."""
    del context
    path = write_gguf()
    greedy = ask(lambda: _drawn(path, temperature=0.0))
    control = ask(lambda: _drawn(path, min_p=0.5))
    asked = ask(lambda: _drawn(path, min_p=MIN_P))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value is not None and not any(asked.value),
        effect="whether the answers are empty, since no token is 1.5 times as likely as the most "
        "likely one",
        measured={"seeds": len(SEEDS), "same_as_greedy": asked.value == greedy.value},
        stand_in=_TINY,
    )


@question("negative_temperature", asks=f"a temperature of {NEGATIVE:g}")
def negative_temperature(context: ProbeContext) -> Evidence:
    """Compare with a temperature of 1: scores divided by −1 would prefer the least likely."""
    del context
    path = write_gguf()
    one = ask(lambda: _drawn(path))
    asked = ask(lambda: _drawn(path, temperature=NEGATIVE))
    narrow = ask(lambda: _drawn(path, temperature=NEGATIVE, top_k=1))
    return Evidence(
        attempt=asked,
        control=one,
        did_it=asked.value is not None and asked.value != one.value,
        effect="whether any answer differs from that at a temperature of 1",
        measured={
            "seeds": len(SEEDS),
            "same_as_at_temperature_1": asked.value == one.value,
            "top_k_1_is_dropped_with_it": narrow.value == asked.value,
        },
        stand_in=_TINY,
    )


@question("misspelt_generation_option")
def misspelt_generation_option(context: ProbeContext) -> Evidence:
    """Write an option's name wrong in a completion."""
    del context
    path = write_gguf()
    return Evidence(
        attempt=ask(lambda: complete(path, temprature=0.5)),
        control=ask(lambda: complete(path)),
        did_it=False,
        effect="a name that is no option's cannot do anything",
        stand_in=_TINY,
    )


@question("sampling_inherited_from_the_checkpoint")
def sampling_inherited_from_the_checkpoint(context: ProbeContext) -> Evidence:
    """Name no sampling option and look whether the seeds give the greedy answer."""
    del context
    stated = write_gguf(metadata={"general.sampling.temp": 5.0})
    silent = write_gguf()
    greedy = ask(lambda: _unnamed(stated, temperature=0.0))
    asked = ask(lambda: _unnamed(stated))
    without = ask(lambda: _unnamed(silent))
    return Evidence(
        attempt=asked,
        control=greedy,
        did_it=asked.value is not None and asked.value == greedy.value,
        effect="whether the tokens are the greedy ones, under each of the seeds",
        measured={
            "answers": None if asked.value is None else len({tuple(a) for a in asked.value}),
            "same_as_of_a_file_that_states_no_sampling": asked.value == without.value,
        },
        stand_in="a tiny random file whose metadata states a temperature of 5",
    )


def _unnamed(path: Path, **options: Any) -> list[list[int]]:
    llama = open_file(path, n_ctx=256)
    prompt = llama.tokenize(TEXT.encode())
    answers = []
    for seed in SEEDS:
        llama.create_completion(prompt, max_tokens=6, seed=seed, **options)
        answers.append([int(token) for token in llama.input_ids[len(prompt) : llama.n_tokens]])
    return answers


@question("penalty_while_speculating")
def penalty_while_speculating(context: ProbeContext) -> Evidence:
    """Compare the tokens with those of the same penalty without a drafting model."""
    del context
    path = write_gguf()

    def drafted(**options: Any) -> list[int]:
        return complete(path, opened={"draft_model": _drafts()}, max_tokens=16, **options)

    penalty: dict[str, Any] = {"repeat_penalty": PENALTY}
    control = ask(lambda: complete(path, max_tokens=16, **penalty))
    asked = ask(lambda: drafted(**penalty))
    without = ask(lambda: complete(path, max_tokens=16))
    if control.value == without.value:
        return not_askable("the penalty moves no token of this prompt, so it cannot be missed")
    kept = asked.value is not None and asked.value == control.value
    return Evidence(
        attempt=asked,
        control=control,
        did_it=kept,
        effect="whether the tokens are those of the penalty without drafts",
        measured={
            "dropped": [] if kept else ["repeat_penalty"],
            "with_drafts": asked.value,
            "without_drafts": control.value,
            "without_penalty": without.value,
            "drafts_without_penalty": ask(drafted).value,
        },
        stand_in=f"{_TINY}, and drafts looked up in the prompt",
    )


def _drafts() -> Callable[..., Any]:
    from importlib import import_module

    made: Callable[..., Any] = import_module(
        "llama_cpp.llama_speculative"
    ).LlamaPromptLookupDecoding(num_pred_tokens=4)
    return made


@question("model_named_in_the_request", asks="an answer of the model `another-model`")
def model_named_in_the_request(context: ProbeContext) -> Evidence:
    """Name another model in the request and read which one the answer says it comes from."""
    del context
    path = write_gguf()

    def answer(**options: Any) -> tuple[str, str]:
        made = open_file(path, n_ctx=256).create_completion(
            TEXT, max_tokens=6, temperature=0.0, **options
        )
        return str(made["model"]), str(made["choices"][0]["text"])

    control = ask(answer)
    asked = ask(lambda: answer(model="another-model"))
    same = asked.value is not None and asked.value[1:] == (control.value or ("", ""))[1:]
    return Evidence(
        attempt=asked,
        control=control,
        did_it=not same,
        effect="whether the text is another than the open file's own",
        measured={"same_text": same, "answer_says_model": asked.value and asked.value[0]},
        stand_in=_TINY,
    )


@question(
    "logprobs_without_keeping_logits",
    asks="log probabilities, of a file opened without logits_all",
)
def logprobs_without_keeping_logits(context: ProbeContext) -> Evidence:
    """Ask a completion for log probabilities and look for them."""
    del context
    path = write_gguf()

    def found(**options: Any) -> bool:
        made = open_file(path, n_ctx=256).create_completion(TEXT, max_tokens=2, **options)
        return made["choices"][0]["logprobs"] is not None

    asked = ask(lambda: found(logprobs=2))
    return Evidence(
        attempt=asked,
        control=ask(found),
        did_it=asked.value,
        effect="whether the answer holds log probabilities",
        stand_in=_TINY,
    )
