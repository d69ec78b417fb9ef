"""Attention windows: of an architecture that has them, and of one that has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.probes._capture import attempt
from labkit.probes._registry import ProbeContext, probe
from labkit.probes._result import Evidence
from labkit.probes._subjects import NEW_TOKENS
from labkit.probes.libraries import torch_library, transformers_library
from labkit.probes.stand_ins import (
    PAD,
    random_ids,
    tiny_llama,
    tiny_mistral,
    with_token_changed,
)

WINDOW = 4
SINK_TOKENS = 2
SINK_PROMPT_TOKENS = 16
PROMPT_TOKENS = 32  # past what two layers of windows reach together


@probe(
    "window_of_the_architecture",
    asks=f"the window of {WINDOW} tokens that a checkpoint's config states, of an architecture "
    "that has windows",
)
def window_of_the_architecture(context: ProbeContext) -> Evidence:
    """Change a token outside the window of a tiny Mistral and look at the last logits."""
    return _ask_window(context, tiny_mistral)


@probe(
    "window_on_an_architecture_without",
    asks=f"a window of {WINDOW} tokens written into the config of an architecture that has none",
)
def window_on_an_architecture_without(context: ProbeContext) -> Evidence:
    """Change a token outside the window asked of a tiny Llama and look at the last logits."""
    return _ask_window(context, tiny_llama)


@probe(
    "sinks_beside_a_window",
    asks=f"the first {SINK_TOKENS} tokens kept in reach beside a window of {WINDOW} tokens",
)
def sinks_beside_a_window(context: ProbeContext) -> Evidence:
    """Ask for whichever sink cache the release has and look which tokens stay in reach."""
    model = tiny_llama().to(context.device)
    asked = attempt(lambda: keeps_sinks(model))
    return Evidence(
        attempt=asked,
        control=attempt(lambda: scores_with_sinks(model, random_ids(WINDOW), asked=False)),
        did_it=asked.value,
        effect="whether the last scores move with a sink token and not with one behind the sinks, "
        "which a prompt read in one pass would have let through",
        measured={"sinks": SINK_TOKENS, "window": WINDOW, "kept": asked.value},
        stand_in="a tiny random Llama",
    )


def keeps_sinks(model: Any) -> bool:
    """Say whether, beside a window, the first token is in reach and one behind it is not."""
    ids = random_ids(SINK_PROMPT_TOKENS)
    whole, sink, middle = (
        scores_with_sinks(model, changed)
        for changed in (
            ids,
            with_token_changed(ids, at=0),
            with_token_changed(ids, at=SINK_TOKENS + 1),
        )
    )
    equal = torch_library().equal
    return not equal(whole, sink) and bool(equal(whole, middle))


def scores_with_sinks(model: Any, ids: Any, *, asked: bool = True) -> Any:
    """Return the last scores of a generation with whichever sink cache this release has."""
    window = {"window_length": WINDOW + SINK_TOKENS, "num_sink_tokens": SINK_TOKENS}
    options: dict[str, Any] = {"cache_implementation": "sink", "cache_config": window}
    if made := getattr(transformers_library(), "SinkCache", None):
        options = {"past_key_values": made(**window)}
    with torch_library().inference_mode():
        output = model.generate(
            ids.to(model.device),
            do_sample=False,
            max_new_tokens=NEW_TOKENS,
            pad_token_id=PAD,
            output_scores=True,
            return_dict_in_generate=True,
            **(options if asked else {}),
        )
    return output.scores[-1]


def _ask_window(context: ProbeContext, build: Callable[..., Any]) -> Evidence:
    ids = random_ids(PROMPT_TOKENS).to(context.device)

    def last_logits(tokens: Any, window: int | None = WINDOW) -> Any:
        model = build(sliding_window=window).to(context.device)
        with torch_library().inference_mode():
            return model(tokens).logits[0, -1]

    control = attempt(lambda: last_logits(ids, None))
    asked = attempt(lambda: last_logits(ids))
    moved = None
    if asked.value is not None:
        moved = float((asked.value - last_logits(with_token_changed(ids, at=0))).abs().max())
    return Evidence(
        attempt=asked,
        control=control,
        did_it=moved == 0,
        effect="the largest change of a last-token logit when the first token, outside every "
        "window, is another one",
        measured={"logit_change": moved, "window": WINDOW, "tokens": PROMPT_TOKENS},
        stand_in=f"a tiny random {build.__name__.removeprefix('tiny_').capitalize()}",
    )
