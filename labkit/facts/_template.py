"""Facts about a tokenizer and its chat template, learned by rendering marked messages."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from labkit.facts._finding import Finding, find
from labkit.probes import attempt
from labkit.probes.clock import CLOCK_SHIFT, render_later
from labkit.probes.roles import (
    REPLY_MARK,
    SECOND_MARK,
    SYSTEM_MARK,
    USER_MARK,
    Message,
    Render,
    SystemTreatment,
    learn_system_treatment,
    message,
    template_renderer,
    user_opening,
)

OTHER_ROLES = ("user", "assistant", "tool", "developer")
_OF_A_TEMPLATE = ("role_treatment", "alternating_roles", "template_clock", "template_bos_count")
_CALL = "call00001"  # nine letters and digits, which some templates demand
_FOLDABLE = ("tool", "developer")  # a reply stands behind a user's turn in any template


def learn_template(tokenizer: Any) -> list[Finding]:
    """Learn everything a tokenizer shows."""
    return [*_learn_tokenizer(tokenizer), *_learn_chat_template(tokenizer)]


def _learn_tokenizer(tokenizer: Any) -> list[Finding]:
    return [
        find(
            "tokenizer_bos_count",
            lambda: _leading_bos(tokenizer(USER_MARK)["input_ids"], tokenizer.bos_token_id),
            how="encoded a plain text and counted the BOS ids it begins with",
        ),
        find(
            "tokenizer_max_tokens",
            lambda: int(tokenizer.model_max_length),
            how="read from the tokenizer; some 10^30 is its sign for no limit",
        ),
        find(
            "pad_is_eos",
            lambda: tokenizer.pad_token_id in (None, tokenizer.eos_token_id),
            how="compared the tokenizer's pad and end-of-sequence ids",
        ),
        find(
            "default_padding_side",
            lambda: _padded_side(tokenizer),
            how="padded a batch of two lengths and looked which side was filled",
        ),
    ]


def _learn_chat_template(tokenizer: Any) -> list[Finding]:
    if not getattr(tokenizer, "chat_template", None):
        how = "the tokenizer carries no chat template"
        missing = [Finding(name=n, value=None, how=f"not tried: {how}") for n in _OF_A_TEMPLATE]
        return [Finding(name="system_role", value="no_template", how=how), *missing]
    render = template_renderer(tokenizer)
    learned = learn_system_treatment(render)
    return [
        Finding(name="system_role", value=_system_role(learned), how=learned.why),
        find(
            "role_treatment",
            lambda: {role: _treat_role(render, role) for role in OTHER_ROLES},
            how="rendered a marked message of each role after a user's, and before the next; a "
            "tool's also as the answer to a call, a developer's also at the head",
        ),
        find(
            "alternating_roles",
            lambda: _refuses_repetition(render),
            how="rendered two user messages in a row",
        ),
        find(
            "template_clock",
            lambda: _moves_with_the_clock(render),
            how=f"rendered again with the clock moved by {CLOCK_SHIFT.days} days",
        ),
        find(
            "template_bos_count",
            lambda: _template_bos(tokenizer, render),
            how="rendered a user message and counted the BOS texts it begins with",
        ),
    ]


def _leading_bos(ids: Sequence[int], bos_id: int | None) -> int:
    """Count how many ids at the start are the BOS."""
    count = 0
    while bos_id is not None and count < len(ids) and ids[count] == bos_id:
        count += 1
    return count


def _padded_side(tokenizer: Any) -> str:
    """Pad a short row beside a longer one and read the side from the mask."""
    texts = [USER_MARK, USER_MARK * 3]
    # a tokenizer without a pad token cannot pad, but still has a side
    if tokenizer.pad_token_id is None:
        return str(tokenizer.padding_side)
    mask = tokenizer(texts, padding=True)["attention_mask"][0]
    return "left" if mask[0] == 0 else "right"


def _system_role(learned: SystemTreatment) -> str | None:
    """Return the treatment as admission names it."""
    if learned.treatment == "unknown":
        return None
    inserts = learned.treatment == "accepted" and learned.default is not None
    return "default_inserted" if inserts else learned.treatment


def _treat_role(render: Render, role: str) -> str:
    """Say how a message of a role is treated, at the best of the places it belongs to."""
    treatment = _treat_behind_a_user(render, role)
    if treatment not in ("refused", "dropped"):
        return treatment
    if role == "developer":
        return _at_the_head(render, role) or treatment
    return "accepted" if role == "tool" and _answers_a_call(render) else treatment


def _treat_behind_a_user(render: Render, role: str) -> str:
    """Say whether a message of a role gets a turn, is folded into one, left out or refused."""
    before: list[Message] = [] if role == "user" else [message("user", USER_MARK)]
    rendered = attempt(lambda: render([*before, message(role, REPLY_MARK)]))
    if rendered.raised:
        return "refused"
    if REPLY_MARK not in str(rendered.value):
        return "dropped"
    folded = role in _FOLDABLE and (
        _folds_back(render, str(rendered.value)) or _folds_forward(render, role)
    )
    return "folded" if folded else "accepted"


def _at_the_head(render: Render, role: str) -> str | None:
    """Say how a message is treated in a system message's place; None where that cannot be told."""

    def renamed(chat: Sequence[Message]) -> str:
        return render([{**m, "role": role} if m["role"] == "system" else m for m in chat])

    treatment = learn_system_treatment(renamed).treatment
    return None if treatment == "unknown" else treatment


def _answers_a_call(render: Render) -> bool:
    """Say whether a tool's message is shown behind the call it answers; some templates ask one."""
    call = {"id": _CALL, "type": "function", "function": {"name": "look", "arguments": {}}}
    chat: list[Any] = [
        message("user", USER_MARK),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {**message("tool", REPLY_MARK), "tool_call_id": _CALL, "name": "look"},
    ]
    rendered = attempt(lambda: render(chat))
    return not rendered.raised and REPLY_MARK in str(rendered.value)


def _folds_back(render: Render, rendered: str) -> bool:
    """Say whether the message stands in the user's turn before it, which has not been closed."""
    between = rendered.partition(USER_MARK)[2].partition(REPLY_MARK)[0]
    closing = _user_closing(render)
    return not between.strip().startswith(closing) if closing else not between.strip()


def _user_closing(render: Render) -> str:
    """Return the text behind a user's message, as far as it is the same before a reply."""
    user, reply = message("user", USER_MARK), message("assistant", REPLY_MARK)
    both = attempt(lambda: (render([user]), render([user, reply])))
    if both.value is None:
        return ""
    alone, answered = (text.partition(USER_MARK)[2] for text in both.value)
    shared = itertools.takewhile(
        lambda pair: pair[0] == pair[1], zip(alone, answered, strict=False)
    )
    return "".join(character for character, _ in shared).strip()


def _folds_forward(render: Render, role: str) -> bool:
    """Say whether the next user's turn opens before the message and not behind it."""
    chat = [message("user", USER_MARK), message(role, REPLY_MARK), message("user", SECOND_MARK)]
    rendered, opening = attempt(lambda: render(chat)), user_opening(render)
    between = str(rendered.value).partition(REPLY_MARK)[2].partition(SECOND_MARK)
    return bool(opening and between[1]) and not between[0].endswith(opening)


def _refuses_repetition(render: Render) -> bool:
    user, second = message("user", USER_MARK), message("user", SECOND_MARK)
    return attempt(lambda: render([user, second])).raised


def _moves_with_the_clock(render: Render) -> bool:
    """Render now and at a later date; a difference comes from a clock inside the template."""
    chats = [[message("user", USER_MARK)], [message("system", SYSTEM_MARK)]]
    chats[1].append(message("user", USER_MARK))
    return any(_rendered(render, chat) != _rendered_later(render, chat) for chat in chats)


def _rendered(render: Render, chat: Sequence[Message]) -> str:
    shown = attempt(lambda: render(chat))
    return shown.said if shown.raised else str(shown.value)


def _rendered_later(render: Render, chat: Sequence[Message]) -> str:
    return _rendered(lambda messages: render_later(render, messages), chat)


def _template_bos(tokenizer: Any, render: Render) -> int:
    """Count the BOS texts at the start of a rendered chat."""
    bos, text, count = tokenizer.bos_token, render([message("user", USER_MARK)]), 0
    while bos and text.startswith(bos):
        text, count = text[len(bos) :], count + 1
    return count
