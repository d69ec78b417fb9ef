"""Contexts, answers and caches of a length."""

from __future__ import annotations

from typing import Any

from labkit.probes._registry import ProbeContext
from labkit.probes._result import Evidence
from labkit.probes.llamacpp._apart import ask_logits_apart
from labkit.probes.llamacpp._asking import TEXT, ask, complete, last_logits, open_file
from labkit.probes.llamacpp._registry import question
from labkit.probes.llamacpp._stand_ins import POSITIONS, write_gguf

_TINY = "a tiny random Llama file"
CACHE_POSITIONS = 64
LONG_ANSWER = 400


@question("prompt_beyond_rope_positions")
def prompt_beyond_rope_positions(context: ProbeContext) -> Evidence:
    """Read more tokens than the file was trained on, in a context that holds them."""
    del context
    path, tokens = write_gguf(), POSITIONS + 44
    control = ask(lambda: last_logits(path, tokens=POSITIONS - 10, n_ctx=POSITIONS))
    asked = ask(lambda: last_logits(path, tokens=tokens, n_ctx=2 * POSITIONS))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value is not None and bool((asked.value == asked.value).all()),
        effect="whether the last of all the tokens got finite logits",
        measured={"trained_tokens": POSITIONS, "tokens": tokens},
        stand_in=_TINY,
    )


@question("prompt_beyond_learned_positions")
def prompt_beyond_learned_positions(context: ProbeContext) -> Evidence:
    """Read more tokens than the table of learned positions has rows."""
    del context
    positions = 1024
    path = write_gguf(architecture="gpt2", layers=1, positions=positions)
    control = ask(lambda: last_logits(path, tokens=16, n_ctx=positions, n_batch=256))
    asked = ask_logits_apart(path, tokens=positions + 176, context=2 * positions)
    return Evidence(
        attempt=asked,
        control=control,
        did_it=False,
        effect="the model has no such position, so that nothing it returns is what was asked",
        measured={"learned_positions": positions, "tokens": positions + 176},
        stand_in="a tiny random GPT-2 file",
    )


@question("static_cache_length_ignored")
def static_cache_length_ignored(context: ProbeContext) -> Evidence:
    """Ask for a context of 64 positions and read how many the cache has."""
    del context
    path = write_gguf()
    control = ask(lambda: open_file(path, n_ctx=POSITIONS).n_ctx())
    asked = ask(lambda: open_file(path, n_ctx=CACHE_POSITIONS).n_ctx())
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value == CACHE_POSITIONS,
        effect="how many positions the context's cache has",
        measured={"asked_positions": CACHE_POSITIONS, "positions": asked.value},
        stand_in=_TINY,
    )


@question(
    "context_above_the_trained_length",
    asks=f"a context of {2 * POSITIONS} positions, of a file trained on {POSITIONS}",
)
def context_above_the_trained_length(context: ProbeContext) -> Evidence:
    """Open the file and read how long its context became."""
    del context
    path = write_gguf()
    control = ask(lambda: open_file(path, n_ctx=POSITIONS).n_ctx())
    asked = ask(lambda: open_file(path, n_ctx=2 * POSITIONS).n_ctx())
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value == 2 * POSITIONS,
        effect="how many positions the context has; the file's rotary table knows fewer",
        measured={"trained_positions": POSITIONS, "positions": asked.value},
        stand_in=_TINY,
    )


@question(
    "prompt_longer_than_the_context",
    asks=f"a prompt of {POSITIONS + 44} tokens in a context of {POSITIONS}",
)
def prompt_longer_than_the_context(context: ProbeContext) -> Evidence:
    """Complete a prompt that the context cannot hold."""
    del context
    path, ids = write_gguf(), [20] * (POSITIONS + 44)

    def answer(prompt: list[int]) -> str:
        return str(open_file(path, n_ctx=POSITIONS).create_completion(prompt, max_tokens=1))

    return Evidence(
        attempt=ask(lambda: answer(ids)),
        control=ask(lambda: answer(ids[:8])),
        did_it=False,
        effect="the context cannot hold the prompt, so that an answer would be to another one",
        measured={"context_tokens": POSITIONS, "prompt_tokens": len(ids)},
        stand_in=_TINY,
    )


@question(
    "answer_longer_than_the_context",
    asks=f"{LONG_ANSWER} new tokens in a context of {POSITIONS}",
)
def answer_longer_than_the_context(context: ProbeContext) -> Evidence:
    """Ask for more tokens than fit, and count them."""
    del context
    path = write_gguf()
    control = ask(lambda: _usage(path, max_tokens=8))
    asked = ask(lambda: _usage(path, max_tokens=LONG_ANSWER))
    got = asked.value or {}
    return Evidence(
        attempt=asked,
        control=control,
        did_it=got.get("completion_tokens") == LONG_ANSWER,
        effect="how many tokens were written, and which reason the answer gives for its end",
        measured={"asked_tokens": LONG_ANSWER, **got},
        stand_in=_TINY,
    )


def _usage(path: Any, *, max_tokens: int) -> dict[str, Any]:
    """Return the counts and the end of an answer that no end token may stop."""
    llama = open_file(path, n_ctx=POSITIONS)
    answer = llama.create_completion(
        TEXT, max_tokens=max_tokens, temperature=0.0, logit_bias={llama.token_eos(): -1e9}
    )
    ended = {"finish_reason": answer["choices"][0]["finish_reason"]}
    return {"completion_tokens": answer["usage"]["completion_tokens"], **ended}


@question("checkpoint_dtype_without_asking")
def checkpoint_dtype_without_asking(context: ProbeContext) -> Evidence:
    """Open a float16 file and read from the log as what its matrices were loaded."""
    del context
    log: list[str] = []
    wide, narrow = write_gguf(), write_gguf(dtype="float16")
    control = ask(lambda: complete(wide))
    asked = ask(lambda: complete(narrow), log=log)
    types = [line.partition("- type")[2].split() for line in log if "- type" in line]
    counts = {words[0].rstrip(":"): int(words[-2]) for words in types if len(words) >= 3}
    return Evidence(
        attempt=asked,
        control=control,
        did_it=counts.get("f16", 0) > 0,
        effect="how many tensors were loaded in each type, by the loader's own log; the vectors "
        "of the file are float32",
        measured={"tensors_by_type": counts},
        stand_in="a tiny random float16 file",
    )
