"""A mask that is too short for the cache, and a mask that is left for the library to guess."""

from __future__ import annotations

from typing import Any

from labkit.probes._capture import attempt
from labkit.probes._registry import ProbeContext, probe
from labkit.probes._result import Evidence
from labkit.probes._subjects import generation_subject
from labkit.probes.libraries import torch_library
from labkit.probes.stand_ins import EOS, random_ids, tiny_llama

CACHED_TOKENS, FURTHER_TOKENS = 8, 12
# A float32 logit of a tiny model is of the order of 1; a hidden cache moves it by as much.
LOGIT_TOLERANCE = 1e-3


@probe(
    "mask_of_the_new_tokens_only",
    asks=f"{FURTHER_TOKENS} more tokens read on a cache of {CACHED_TOKENS}, with a mask over the "
    "new ones",
)
def mask_of_the_new_tokens_only(context: ProbeContext) -> Evidence:
    """Continue from a cache with the short mask and compare with one pass over everything."""
    model = tiny_llama().to(context.device)
    control = attempt(lambda: _continued(model, mask_tokens=CACHED_TOKENS + FURTHER_TOKENS))
    asked = attempt(lambda: _continued(model, mask_tokens=FURTHER_TOKENS))
    with torch_library().inference_mode():
        whole = model(_ids(model)).logits[0, -1]
    gaps = [
        None if each.value is None else float((each.value - whole).abs().max())
        for each in (asked, control)
    ]
    return Evidence(
        attempt=asked,
        control=control,
        did_it=gaps[0] is not None and gaps[0] < LOGIT_TOLERANCE,
        effect="the largest difference of a last-token logit from one pass over all tokens",
        measured={
            "gap": gaps[0],
            "gap_with_the_whole_mask": gaps[1],
            "mask_tokens": FURTHER_TOKENS,
            "needed_tokens": CACHED_TOKENS + FURTHER_TOKENS,
        },
        stand_in="a tiny random Llama",
    )


@probe(
    "mask_guessed_from_the_padding",
    asks="a padded batch without a mask, of a tokenizer whose pad token is its end token",
)
def mask_guessed_from_the_padding(context: ProbeContext) -> Evidence:
    """Generate from a left-padded row without a mask and compare with the row alone."""
    subject = generation_subject(ProbeContext(device=context.device))
    torch = torch_library()
    missing = subject.longer.shape[1] - subject.short.shape[1]
    pads = torch.full_like(subject.longer[:, :missing], EOS)
    rows = torch.cat([torch.cat([pads, subject.short], dim=1), subject.longer])
    mask = torch.ones_like(rows)
    mask[0, :missing] = 0

    def first_row(**options: Any) -> list[int]:
        output = subject.generate(rows, pad_token_id=EOS, **options)
        return subject.new_tokens(output, prompt_tokens=rows.shape[1])

    alone = subject.new_tokens(
        subject.generate(subject.short), prompt_tokens=subject.short.shape[1]
    )
    control = attempt(lambda: first_row(attention_mask=mask))
    asked = attempt(lambda: first_row(attention_mask=None))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value == alone,
        effect="whether the padded first row continues as the same prompt does alone",
        measured={"alone": alone, "without_mask": asked.value, "with_mask": control.value},
        stand_in=subject.stand_in,
    )


def _ids(model: Any) -> Any:
    return random_ids(CACHED_TOKENS + FURTHER_TOKENS).to(model.device)


def _continued(model: Any, *, mask_tokens: int) -> Any:
    """Read the first tokens into a cache, then the rest under a mask; return the last logits."""
    torch, ids = torch_library(), _ids(model)
    with torch.inference_mode():
        cache = model(ids[:, :CACHED_TOKENS], use_cache=True).past_key_values
        mask = torch.ones((1, mask_tokens), dtype=torch.long, device=model.device)
        further = ids[:, CACHED_TOKENS:]
        return model(further, attention_mask=mask, past_key_values=cache).logits[0, -1]
