"""What becomes of a chat: its system message, its roles, its template, its BOS."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from labkit.probes._capture import Attempt, clean_text
from labkit.probes._registry import ProbeContext, read_probe_data
from labkit.probes._result import Evidence, not_askable
from labkit.probes.clock import CLOCK_SHIFT, _Later
from labkit.probes.llamacpp._asking import ask, open_file
from labkit.probes.llamacpp._registry import question
from labkit.probes.llamacpp._stand_ins import BOS, write_gguf
from labkit.probes.roles import Message, learn_system_treatment, message

_WRITES_BOS = {"tokenizer.ggml.add_bos_token": True}
_ROLE, _WORDS = "narrator", "The curtain rises."


def _template(name: str) -> str:
    return str(read_probe_data("templates")["templates"][name])


def _system() -> Message:
    return message("system", read_probe_data("texts")["system"])


def _user() -> Message:
    return message("user", read_probe_data("texts")["user"])


def _read_by(path: Path, chat: Sequence[Message], **options: Any) -> list[int]:
    """Return the tokens that a chat completion read, by a file opened for it alone."""
    llama = open_file(path, n_ctx=1024, **options)
    llama.create_chat_completion(list(chat), max_tokens=1, temperature=0.0)
    read = [int(token) for token in llama.input_ids[: llama.n_tokens]]
    return read


def _prompt_of(path: Path, chat: Sequence[Message], **options: Any) -> str:
    """Return the prompt that a chat completion read, as text, special tokens included."""
    ids = _read_by(path, chat, **options)
    opened = open_file(path, vocab_only=True)
    return str(opened.detokenize(ids, special=True).decode(errors="replace"))


def _ask_template(path: Path, *, stand_in: str, **options: Any) -> Evidence:
    """Ask for a system turn and see, by marks, whether the text got one."""
    control = ask(lambda: _prompt_of(path, [_user()], **options))
    asked = ask(lambda: _prompt_of(path, [_system(), _user()], **options))
    learned = learn_system_treatment(lambda chat: _prompt_of(path, chat, **options))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=learned.treatment == "accepted" and _system()["content"] in str(asked.value),
        effect="whether the system message stands in a turn of its own among the tokens read",
        measured={"treatment": learned.treatment, "read": _kept(asked)},
        stand_in=stand_in,
    )


def _kept(asked: Attempt[str]) -> str | None:
    return None if asked.value is None else clean_text(asked.value)


@question("system_message_accepted")
def system_message_accepted(context: ProbeContext) -> Evidence:
    """Chat by the template that the file carries."""
    template = context.tokenizer().chat_template if context.has_tokenizer else _template("accepts")
    named = f"{context.model_name}'s own template" if context.has_tokenizer else "one of our own"
    return _ask_template(write_gguf(template=template), stand_in=f"{named}, in a tiny random file")


@question("system_message_folded")
def system_message_folded(context: ProbeContext) -> Evidence:
    """Chat by a template that folds, carried by the file."""
    del context
    return _ask_template(
        write_gguf(template=_template("folds")), stand_in="a template of our own that folds"
    )


@question("system_message_forbidden")
def system_message_forbidden(context: ProbeContext) -> Evidence:
    """Chat by a template that raises, carried by the file."""
    del context
    return _ask_template(
        write_gguf(template=_template("refuses")),
        stand_in="a template of our own that raises at a system message",
    )


@question(
    "system_message_of_a_built_in_format",
    asks="a system message, of the API's own format `mistral-instruct`",
)
def system_message_of_a_built_in_format(context: ProbeContext) -> Evidence:
    """Chat by a format that the Python layer writes itself."""
    del context
    return _ask_template(
        write_gguf(), stand_in="a tiny random file", chat_format="mistral-instruct"
    )


@question("chat_template_missing")
def chat_template_missing(context: ProbeContext) -> Evidence:
    """Chat by a file without a template; which format was used is in the file's handle."""
    del context
    bare, carrying = write_gguf(), write_gguf(template=_template("accepts"))
    control = ask(lambda: _prompt_of(carrying, [_user()]))
    asked = ask(lambda: _prompt_of(bare, [_user()]))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=False if asked.value is not None else None,
        effect="a file without a template cannot be answered by its own; which one was used",
        measured={
            "format": None if asked.raised else open_quietly(bare).chat_format,
            "read": _kept(asked),
        },
        stand_in="a tiny random file without a template, in place of a base checkpoint's",
    )


def open_quietly(path: Path) -> Any:
    """Return an open file, what is said on the way left out."""
    return ask(lambda: open_file(path, n_ctx=256)).value


@question("default_system_message")
def default_system_message(context: ProbeContext) -> Evidence:
    """Chat with a lone user message and look for words nobody asked for."""
    if not context.has_tokenizer:
        return not_askable("no tokenizer was given, and a template of ours would prove nothing")
    path = write_gguf(template=context.tokenizer().chat_template)
    learned = learn_system_treatment(lambda chat: _prompt_of(path, chat))
    if learned.default is None:
        return not_askable(f"{context.model_name}'s template writes no system message by itself")
    default = learned.default
    control = ask(lambda: _prompt_of(path, [_system(), _user()]))
    asked = ask(lambda: _prompt_of(path, [_user()]))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value is not None and default not in asked.value,
        effect="whether the tokens read hold only what was asked for",
        measured={"read": _kept(asked), "inserted": default},
        stand_in=f"{context.model_name}'s own template, in a tiny random file",
    )


@question("date_written_by_the_template")
def date_written_by_the_template(context: ProbeContext) -> Evidence:
    """Chat now and with the clock moved on, by a template that asks for the date."""
    del context
    path = write_gguf(template=_template("writes_the_date"))
    formats = importlib.import_module("llama_cpp.llama_chat_format")
    asked = ask(lambda: _prompt_of(path, [_user()]))
    control = ask(lambda: _prompt_of(path, [_user()]))
    with mock.patch.object(formats, "datetime", _Later):
        later = ask(lambda: _prompt_of(path, [_user()]))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value is not None and asked.value == later.value,
        effect="whether the tokens read are the same under a clock moved on",
        measured={
            "clock_moved_days": CLOCK_SHIFT.days,
            "template_clock": asked.value != later.value,
        },
        stand_in="a template of our own that writes the date where it can learn it",
    )


@question("bos_from_template_and_tokenizer")
def bos_from_template_and_tokenizer(context: ProbeContext) -> Evidence:
    """Count the BOS at the head of a chat whose template writes one and whose file adds one."""
    del context
    path = write_gguf(template=_template("writes_bos"), metadata=_WRITES_BOS)
    return _ask_bos(
        ask(lambda: _read_by(path, [_user()])),
        control=ask(lambda: open_file(path, n_ctx=1024) and None),
    )


@question(
    "bos_written_into_the_prompt",
    asks="one BOS before a prompt that begins with it, of a file that adds one",
)
def bos_written_into_the_prompt(context: ProbeContext) -> Evidence:
    """Count the BOS at the head of a completion whose text begins with one."""
    del context
    path = write_gguf(metadata=_WRITES_BOS)

    def read(text: str) -> list[int]:
        llama = open_file(path, n_ctx=256)
        llama.create_completion(text, max_tokens=1, temperature=0.0)
        return [int(token) for token in llama.input_ids[: llama.n_tokens]]

    return _ask_bos(ask(lambda: read("<s>abc")), control=ask(lambda: read("abc")))


def _ask_bos(asked: Attempt[list[int]], *, control: Attempt[Any]) -> Evidence:
    read = asked.value or []
    head = next((i for i, token in enumerate(read) if token != BOS), len(read))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=head == 1,
        effect="how many BOS stand at the head of the tokens read",
        measured={"bos_at_the_head": head, "read_first": read[:4]},
        stand_in="a tiny random file that adds a BOS",
    )


@question("unknown_chat_role", asks=f"a message of the role `{_ROLE}`, which no template mentions")
def unknown_chat_role(context: ProbeContext) -> Evidence:
    """Look for an unknown role's words in what each kind of format had the model read."""
    template = context.tokenizer().chat_template if context.has_tokenizer else _template("accepts")
    path = write_gguf(template=template)
    chat = [message(_ROLE, _WORDS), _user()]
    control = ask(lambda: _prompt_of(path, [_user()]))
    asked = ask(lambda: _prompt_of(path, chat))
    formats = ("chatml", "llama-2", "mistral-instruct", "gemma")

    def keeps(name: str) -> bool:
        return _WORDS in str(ask(lambda: _prompt_of(path, chat, chat_format=name)).value)

    kept = {name: keeps(name) for name in formats}
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value is not None and _WORDS in asked.value,
        effect="whether the message's words stand among the tokens read",
        measured={"read": _kept(asked), "kept_by_built_in_format": kept},
        stand_in="a tiny random file with that template",
    )


@question(
    "unknown_role_of_a_built_in_format",
    asks=f"a message of the role `{_ROLE}`, of the API's own format `chatml`",
)
def unknown_role_of_a_built_in_format(context: ProbeContext) -> Evidence:
    """Look for an unknown role's words in what a built-in format had the model read."""
    del context
    path, chat = write_gguf(), [message(_ROLE, _WORDS), _user()]
    control = ask(lambda: _prompt_of(path, [_user()], chat_format="chatml"))
    asked = ask(lambda: _prompt_of(path, chat, chat_format="chatml"))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value is not None and _WORDS in asked.value,
        effect="whether the message's words stand among the tokens read",
        measured={"read": _kept(asked)},
        stand_in="a tiny random file",
    )
