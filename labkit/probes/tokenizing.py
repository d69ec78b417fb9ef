"""Text on its way to token ids: the beginning written twice, and a truncation that cuts nothing."""

from __future__ import annotations

from typing import Any

from labkit.probes._capture import attempt
from labkit.probes._registry import ProbeContext, probe, read_probe_data
from labkit.probes._result import Evidence
from labkit.probes.roles import message, template_renderer
from labkit.probes.stand_ins import BOS, tiny_tokenizer

TEXT_CHARS = 400  # and as many tokens: the tiny tokenizer's are characters
SHORTER_TOKENS = 32


@probe(
    "bos_from_template_and_tokenizer",
    asks="one BOS before a rendered chat, where the template writes it and the tokenizer adds it",
)
def bos_from_template_and_tokenizer(context: ProbeContext) -> Evidence:
    """Render a chat as text, encode the text, and count the BOS ids it begins with."""
    del context
    template = read_probe_data("templates")["templates"]["writes_bos"]
    tokenizer = tiny_tokenizer(chat_template=template, writes_bos=True)
    chat = [message("user", read_probe_data("texts")["user"])]
    text = template_renderer(tokenizer)(chat)
    control = attempt(lambda: _ids(tokenizer, text, add_special_tokens=False))
    asked = attempt(lambda: _ids(tokenizer, text))
    count = None if asked.value is None else leading_bos(asked.value)
    return Evidence(
        attempt=asked,
        control=control,
        did_it=count == 1,
        effect="how many BOS ids the encoded chat begins with",
        measured={
            "bos_count": count,
            "template_bos_count": None if control.value is None else leading_bos(control.value),
            "tokenizer_bos_count": leading_bos(_ids(tokenizer, "a")),
            "first_ids": None if asked.value is None else asked.value[:4],
        },
        stand_in="a tiny tokenizer and a template of our own that each write a BOS",
    )


@probe(
    "truncation_without_a_stored_length",
    asks="a long text cut to the model's length, of a tokenizer that stores no length",
)
def truncation_without_a_stored_length(context: ProbeContext) -> Evidence:
    """Encode a long text with truncation switched on and count the tokens that are left."""
    del context
    text = (read_probe_data("texts")["long_sentence"] * 20)[:TEXT_CHARS]
    control = attempt(
        lambda: _ids(tiny_tokenizer(), text, truncation=True, max_length=SHORTER_TOKENS)
    )
    asked = attempt(lambda: _ids(tiny_tokenizer(), text, truncation=True))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value is not None and len(asked.value) < TEXT_CHARS,
        effect="how many of the text's tokens are left",
        measured={
            "text_tokens": TEXT_CHARS,
            "tokens": None if asked.value is None else len(asked.value),
            "tokens_with_a_length": None if control.value is None else len(control.value),
            "stored_length": int(tiny_tokenizer().model_max_length),
        },
        stand_in="a tiny tokenizer",
    )


def leading_bos(ids: list[int]) -> int:
    """Return how many BOS ids stand at the beginning."""
    return next((place for place, each in enumerate(ids) if each != BOS), len(ids))


def _ids(tokenizer: Any, text: str, **options: Any) -> list[int]:
    return [int(each) for each in tokenizer(text, **options)["input_ids"]]
