"""Probes 1, 2, 3 and 12: what becomes of a system message, and of a missing template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labkit.probes._capture import Attempt, attempt, clean_text
from labkit.probes._registry import ProbeContext, probe, read_probe_data
from labkit.probes._result import Evidence, not_askable
from labkit.probes.clock import CLOCK_SHIFT, render_later
from labkit.probes.roles import (
    Message,
    Render,
    learn_system_treatment,
    message,
    template_renderer,
)
from labkit.probes.stand_ins import tiny_tokenizer

_TEMPLATE_STAND_IN = "a template of our own that {how}, on a tiny tokenizer; {real} needs a hub"


@probe(
    "system_message_accepted",
    number=1,
    asks="a system message, of a template that has a system turn",
    needs=("tokenizer",),
)
def system_message_accepted(context: ProbeContext) -> Evidence:
    """Render a system message by the model's own template, or by one of ours."""
    if context.has_tokenizer and getattr(context.tokenizer(), "chat_template", None):
        stand_in = f"{context.model_name}'s own template, in place of Llama's"
        return _ask_template(template_renderer(context.tokenizer()), stand_in=stand_in)
    stand_in = _TEMPLATE_STAND_IN.format(how="accepts a system turn", real="Llama's")
    return _ask_template(_stand_in_renderer("accepts"), stand_in=stand_in)


@probe(
    "system_message_folded",
    number=2,
    asks="a system message, of a template without a system turn that folds it into the user's",
)
def system_message_folded(context: ProbeContext) -> Evidence:
    """Encode a system message with Mistral's own v3 tokenizer, from mistral-common."""
    del context
    loaded = attempt(lambda: _mistral_encoders()["v3"])
    if loaded.value is None:
        stand_in = _TEMPLATE_STAND_IN.format(how="folds", real="Mistral's (mistral-common)")
        return _ask_template(_stand_in_renderer("folds"), stand_in=stand_in)
    texts = read_probe_data("texts")
    by_hand = f"{texts['system']}\n\n{texts['user']}"
    folded = loaded.value(_conversation()) == loaded.value([message("user", by_hand)])
    versions = {
        version: learn_system_treatment(render).treatment
        for version, render in _mistral_encoders().items()
    }
    return _ask_template(
        loaded.value, equals_one_user_message=folded, treatment_by_version=versions
    )


@probe(
    "system_message_forbidden",
    number=3,
    asks="a system message, of a template that forbids it",
)
def system_message_forbidden(context: ProbeContext) -> Evidence:
    """Render a system message by a template that raises, as Gemma 2's does."""
    del context
    stand_in = _TEMPLATE_STAND_IN.format(how="raises at a system message", real="Gemma 2's")
    return _ask_template(_stand_in_renderer("refuses"), stand_in=stand_in)


@probe(
    "chat_template_missing",
    number=12,
    asks="a chat rendered by the template of a checkpoint that has none",
)
def chat_template_missing(context: ProbeContext) -> Evidence:
    """Render a chat on a tokenizer that carries no template."""
    del context
    asked = attempt(lambda: template_renderer(tiny_tokenizer())(_conversation()))
    return Evidence(
        attempt=asked,
        did_it=not asked.raised and _holds_texts(str(asked.value)),
        effect="whether both messages stand in a rendered chat",
        measured={"rendered": _kept(asked)},
        stand_in="a tiny tokenizer without a template, in place of a base checkpoint's",
    )


@probe(
    "default_system_message",
    asks="a chat without a system message, of a template that writes one by itself",
    needs=("tokenizer",),
)
def default_system_message(context: ProbeContext) -> Evidence:
    """Render a lone user message and look for words nobody asked for."""
    if not context.has_tokenizer:
        return not_askable("no tokenizer was given, and a template of ours would prove nothing")
    render = template_renderer(context.tokenizer())
    learned = learn_system_treatment(render)
    if learned.default is None:
        return not_askable(
            f"{context.model_name}'s template writes no system message by itself",
            treatment=learned.treatment,
        )
    asked = attempt(lambda: render([message("user", read_probe_data("texts")["user"])]))
    return Evidence(
        attempt=asked,
        did_it=learned.default not in str(asked.value),
        effect="whether the rendered chat holds only what was asked for",
        measured={"rendered": _kept(asked), "inserted": learned.default},
    )


@probe(
    "date_written_by_the_template",
    asks="a chat whose prompt is the same on another day, of a template that asks for the date",
)
def date_written_by_the_template(context: ProbeContext) -> Evidence:
    """Render a chat now and with the clock moved on, by a template that asks for the date."""
    del context
    render, chat = _stand_in_renderer("writes_the_date"), _conversation()
    control = attempt(lambda: _stand_in_renderer("accepts")(chat))
    asked = attempt(lambda: render(chat))
    later = attempt(lambda: render_later(render, chat))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=not asked.raised and asked.value == later.value,
        effect="whether the rendered prompt is the same under a clock moved on",
        measured={
            "clock_moved_days": CLOCK_SHIFT.days,
            "template_clock": asked.value != later.value,
        },
        stand_in="a template of our own that writes the date where it can learn it",
    )


def _ask_template(render: Render, *, stand_in: str | None = None, **measured: Any) -> Evidence:
    """Ask for a system turn and see, by marks, whether the text got one."""
    control = attempt(lambda: render(_conversation()[1:]))
    asked = attempt(lambda: render(_conversation()))
    learned = learn_system_treatment(render)
    return Evidence(
        attempt=asked,
        control=control,
        did_it=learned.treatment == "accepted" and _holds_texts(str(asked.value)),
        effect="whether the system message stands in a turn of its own in the rendered text",
        measured={"treatment": learned.treatment, "rendered": _kept(asked), **measured},
        stand_in=stand_in,
    )


def _conversation() -> list[Message]:
    texts = read_probe_data("texts")
    return [message("system", texts["system"]), message("user", texts["user"])]


def _holds_texts(rendered: str) -> bool:
    return all(each["content"] in rendered for each in _conversation())


def _kept(asked: Attempt[str]) -> str | None:
    return None if asked.value is None else clean_text(asked.value)


def _stand_in_renderer(name: str) -> Render:
    template = read_probe_data("templates")["templates"][name]
    return template_renderer(tiny_tokenizer(chat_template=template))


def _mistral_encoders() -> dict[str, Render]:
    """Return Mistral's own encoders as renderers, by the version of their format."""
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    versions: dict[str, Callable[[], Any]] = {
        "v1": MistralTokenizer.v1,
        "v2": MistralTokenizer.v2,
        "v3": MistralTokenizer.v3,
        "v7": MistralTokenizer.v7,
    }
    return {version: _mistral_renderer(make()) for version, make in versions.items()}


def _mistral_renderer(tokenizer: Any) -> Render:
    from mistral_common.protocol.instruct.request import ChatCompletionRequest

    def render(messages: Sequence[Message]) -> str:
        request: Any = ChatCompletionRequest.model_validate({"messages": list(messages)})
        shown = str(tokenizer.encode_chat_completion(request).text)
        # SentencePiece shows a space and a line break by signs of its own.
        return shown.replace("▁", " ").replace("<0x0A>", "\n")

    return render
