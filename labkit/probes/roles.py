"""Learn from rendered text alone what a chat template does with a system message."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from labkit.probes._capture import attempt

Message = dict[str, str]
Render = Callable[[Sequence[Message]], str]
Treatment = Literal["accepted", "folded", "dropped", "refused", "no_template", "unknown"]

SYSTEM_MARK, USER_MARK, REPLY_MARK, SECOND_MARK = "SYSMARKq", "USRMARKq", "RPLMARKq", "SECMARKq"

# The tail of a tag that two different openings happen to share, as in `<s>[INST]`, `</s>[INST]`.
_TAG_TAIL = re.compile(r"^[^<\[]*[>\]]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTreatment:
    """What a template does with a system message, and the texts that show it.

    Attributes:
        treatment: In a turn of its own, inside the user's turn, not at all, or refused.
        rendered: The marked conversation as the template wrote it.
        default: A system message the template writes where none was asked for.
        why: What the treatment was read from.
    """

    treatment: Treatment
    rendered: str = ""
    default: str | None = None
    why: str


def message(role: str, content: str) -> Message:
    """Return one chat message."""
    return {"role": role, "content": content}


def template_renderer(tokenizer: Any, template: str | None = None) -> Render:
    """Return a function that renders messages by a tokenizer's template, or by a given one."""

    def render(messages: Sequence[Message]) -> str:
        options = {} if template is None else {"chat_template": template}
        return str(tokenizer.apply_chat_template(list(messages), tokenize=False, **options))

    return render


def learn_system_treatment(render: Render) -> SystemTreatment:
    """Render marked messages and read from the text where the system message went."""
    user = message("user", USER_MARK)
    plain = attempt(lambda: render([user]))
    if plain.raised or USER_MARK not in str(plain.value):
        return SystemTreatment(
            treatment="unknown", why=f"a lone user message was not rendered ({plain.said})"
        )
    marked = attempt(lambda: render([message("system", SYSTEM_MARK), user]))
    if marked.raised:
        return SystemTreatment(treatment="refused", why=marked.said)
    rendered = str(marked.value)
    default = _default_system(str(plain.value), rendered)
    return SystemTreatment(
        treatment=_place(rendered, opening=user_opening(render)),
        rendered=rendered,
        default=default,
        why=f"rendered {rendered!r}" + (f"; writes by itself: {default!r}" if default else ""),
    )


def _place(rendered: str, *, opening: str) -> Treatment:
    """Say where the system mark stands: before a user's opening of its own, or behind it."""
    system_at, user_at = rendered.find(SYSTEM_MARK), rendered.find(USER_MARK)
    if system_at < 0:
        return "dropped"
    if not opening:
        return "unknown"
    between = rendered[system_at + len(SYSTEM_MARK) : max(user_at, 0)]
    return "accepted" if between.endswith(opening) else "folded"


def user_opening(render: Render) -> str:
    """Return the text that opens a user's turn, the part two user turns have in common."""
    user = message("user", USER_MARK)
    reply, second = message("assistant", REPLY_MARK), message("user", SECOND_MARK)
    both = attempt(lambda: (render([user]), render([user, reply, second])))
    if both.value is None or SECOND_MARK not in both.value[1]:
        return ""
    first_before = both.value[0].split(USER_MARK)[0]
    second_before = both.value[1].split(SECOND_MARK)[0]
    pairs = zip(reversed(first_before), reversed(second_before), strict=False)
    shared = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
    common = "".join(character for character, _ in shared)[::-1]
    return _TAG_TAIL.sub("", common)


def _default_system(plain: str, rendered: str) -> str | None:
    """Return the system text a template writes by itself, or None.

    The marked text is `before SYSTEM between USER after`. Where the plain one has the same
    frame with other words in the system's place, those words are the template's own.
    """
    before, mark, rest = rendered.partition(SYSTEM_MARK)
    between, user_mark, _ = rest.partition(USER_MARK)
    head = plain.partition(USER_MARK)[0]
    if not mark or not user_mark or not before.strip():
        return None
    if not (head.startswith(before) and head.endswith(between)):
        return None
    words = head[len(before) : len(head) - len(between)] if between else head[len(before) :]
    return words.strip() or None
