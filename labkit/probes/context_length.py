"""Probes 4 and 5: a prompt longer than the model's positions, learned or rotary."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from labkit.probes._capture import attempt
from labkit.probes._registry import ProbeContext, probe, read_probe_data
from labkit.probes._result import Evidence
from labkit.probes.stand_ins import random_ids, tiny_gpt2, tiny_llama, tiny_tokenizer

if TYPE_CHECKING:
    import torch

GPT2_POSITIONS = 1024
GPT2_PROMPT_TOKENS = 1200
ROPE_POSITIONS = 256
ROPE_PROMPT_CHARS = 400
NAMES_THE_CAUSE = re.compile(r"context|position|sequence length|maximum length", re.IGNORECASE)


@probe(
    "prompt_beyond_learned_positions",
    number=4,
    asks=f"{GPT2_PROMPT_TOKENS} prompt tokens and 8 new ones of a model with "
    f"{GPT2_POSITIONS} learned positions",
)
def prompt_beyond_learned_positions(context: ProbeContext) -> Evidence:
    """Generate from a prompt that the position table does not reach.

    On the CPU whatever the context's device: on a GPU the failed lookup would end the process's
    CUDA context, and every later probe with it.
    """
    del context
    model = tiny_gpt2(positions=GPT2_POSITIONS)
    ids = random_ids(GPT2_PROMPT_TOKENS)
    control = attempt(lambda: _generate(model, ids[:, :16]))
    asked = attempt(lambda: _generate(model, ids))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value is not None and asked.value.shape[1] == ids.shape[1] + 8,
        effect="whether all prompt tokens were read and eight new ones written",
        measured={
            "message_names_the_cause": bool(NAMES_THE_CAUSE.search(asked.said)),
            "positions": GPT2_POSITIONS,
            "prompt_tokens": GPT2_PROMPT_TOKENS,
            "control_raised": control.raised,
        },
        stand_in="gpt2's architecture and positions with one narrow layer of random weights",
    )


@probe(
    "prompt_beyond_rope_positions",
    number=5,
    asks=f"a prompt longer than the {ROPE_POSITIONS} rotary positions of the model",
    needs=("tokenizer",),
)
def prompt_beyond_rope_positions(context: ProbeContext) -> Evidence:
    """Encode a text that is too long and run the model on the result."""
    model = tiny_llama(positions=ROPE_POSITIONS).to(context.device)
    tokenizer = tiny_tokenizer(max_length=ROPE_POSITIONS)
    text = (read_probe_data("texts")["long_sentence"] * 20)[:ROPE_PROMPT_CHARS]
    control = attempt(lambda: _read(tiny_tokenizer(max_length=ROPE_POSITIONS), model, text[:100]))
    asked = attempt(lambda: _read(tokenizer, model, text))
    untold = attempt(lambda: _read(tiny_tokenizer(), model, text))
    logits = asked.value
    return Evidence(
        attempt=asked,
        control=control,
        did_it=logits is not None
        and logits.shape[1] == ROPE_PROMPT_CHARS
        and bool(logits.isfinite().all()),
        effect="whether logits came back for every token, beyond the last trained position too; "
        "what they are worth there, random weights cannot say",
        measured={
            "prompt_tokens": ROPE_PROMPT_CHARS,
            "positions": ROPE_POSITIONS,
            "logits_for_tokens": None if logits is None else int(logits.shape[1]),
            "spoken_by": sorted({m.speaker for m in asked.messages}),
            "without_a_limit_in_the_tokenizer": [m.text for m in untold.messages],
            **_limit_of_given_tokenizer(context),
        },
        stand_in="a tiny random Llama and a tokenizer that is told the same limit, "
        "in place of TinyLlama's",
    )


def _limit_of_given_tokenizer(context: ProbeContext) -> dict[str, Any]:
    """Say whether the given model's own tokenizer could have warned at all."""
    if not context.has_tokenizer:
        return {}
    limit = int(context.tokenizer().model_max_length)
    # transformers writes an astronomical number where a checkpoint states no limit
    return {"limit_of_the_models_own_tokenizer": limit if limit < 10**9 else None}


def _generate(model: Any, ids: torch.Tensor) -> torch.Tensor:
    import torch

    with torch.inference_mode():
        out: torch.Tensor = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=8,
            min_new_tokens=8,
        )
    return out


def _read(tokenizer: Any, model: Any, text: str) -> torch.Tensor:
    """Return the logits of a text, encoded and run without any check of ours."""
    import torch

    ids = tokenizer(text, return_tensors="pt")["input_ids"].to(model.device)
    with torch.inference_mode():
        logits: torch.Tensor = model(ids).logits
    return logits
