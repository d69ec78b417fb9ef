"""Does the attention mask cover what it must?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Rule, reject, unknown, warn
from labkit.rules._request import Request
from labkit.rules.context import GPT2
from labkit.spec import ModelSpec


def _length(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    given, prompt, cached = (
        request.attention_mask_tokens,
        request.prompt_tokens,
        request.cached_tokens,
    )
    if given is None or prompt is None or given == cached + prompt:
        return None
    needed = cached + prompt
    message = f"mask given for {given} tokens, needs cached {cached} + new {prompt} = {needed}"
    return (reject("mask.length", message, given_tokens=given, needed_tokens=needed),)


LENGTH = Rule(
    id="mask.length",
    reason="A mask over the new tokens only is taken in silence and hides the cache.",
    check=_length,
    admits=Example(
        config=GPT2,
        request=Request(
            prompt_tokens=12, max_new_tokens=8, cached_tokens=8, attention_mask_tokens=20
        ),
    ),
    refuses=Example(
        config=GPT2,
        request=Request(
            prompt_tokens=12, max_new_tokens=8, cached_tokens=8, attention_mask_tokens=12
        ),
    ),
)

_UNMASKED = Request(prompt_tokens=300, max_new_tokens=8, batch_size=4, attention_mask=False)


def _inferred(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if request.attention_mask or not request.padded:
        return None
    if facts.pad_is_eos is None:
        question = "whether padding can be told from text, with no mask given"
        return (unknown("mask.inferred", "pad_is_eos", question),)
    if facts.pad_is_eos:
        message = "no mask is given and the pad token is the end token, so padding is attended to"
        return (reject("mask.inferred", message, hint="pass the tokenizer's attention mask"),)
    message = "no mask is given, so the library would guess one from the pad tokens"
    return (warn("mask.inferred", message, hint="pass the tokenizer's attention mask"),)


INFERRED = Rule(
    id="mask.inferred",
    reason="A mask guessed from pad tokens is wrong where a real token looks like one.",
    check=_inferred,
    admits=Example(config=GPT2, request=Request(prompt_tokens=300, max_new_tokens=8, batch_size=4)),
    refuses=Example(config=GPT2, request=_UNMASKED, facts=RuntimeFacts(pad_is_eos=True)),
    unknown=Example(config=GPT2, request=_UNMASKED),
)
