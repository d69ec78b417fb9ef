"""What would the chat template do with the messages?"""

from __future__ import annotations

from itertools import pairwise

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Reason, Rule, reject, unknown, warn
from labkit.rules._request import Request
from labkit.rules.context import LLAMA3
from labkit.spec import ModelSpec

_CHAT = Request(prompt_tokens=100, max_new_tokens=8, chat_template=True)
_WITH_SYSTEM = Request(prompt_tokens=100, max_new_tokens=8, system_message=True)
_ALWAYS_TAKEN = frozenset({"system", "user", "assistant"})


def _treated(rule: str, role: str, treatment: str | None) -> Reason | None:
    """Return what to say about a role that a template treats in one of the known ways."""
    if treatment == "folded":
        message = f"the template folds the {role} message into the user's turn"
        return warn(rule, message, hint=f"the model sees no {role} turn", treatment=treatment)
    if treatment == "dropped":
        return reject(rule, f"the template drops the {role} message", treatment=treatment)
    if treatment == "refused":
        hint = "put its text into the user's turn yourself"
        return reject(
            rule, f"the template refuses a {role} message", hint=hint, treatment=treatment
        )
    return None


def _system(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if not request.has_system_message:
        return None
    if facts.system_role is None:
        question = f"what the template of {spec.name} does with a system message"
        return (unknown("template.system", "system_role", question),)
    reason = _treated("template.system", "system", facts.system_role)
    return None if reason is None else (reason,)


SYSTEM = Rule(
    id="template.system",
    reason="Templates fold, drop or refuse a system message, and cannot be asked beforehand.",
    check=_system,
    admits=Example(config=LLAMA3, request=_WITH_SYSTEM, facts=RuntimeFacts(system_role="accepted")),
    refuses=Example(config=LLAMA3, request=_WITH_SYSTEM, facts=RuntimeFacts(system_role="folded")),
    unknown=Example(config=LLAMA3, request=_WITH_SYSTEM),
)


def _missing(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if not request.templated:
        return None
    if facts.system_role == "no_template":
        message = f"{spec.name} has no chat template"
        return (reject("template.missing", message, hint="send plain text"),)
    if facts.system_role is None and not request.has_system_message:
        question = f"whether {spec.name} has a chat template, and what it writes by itself"
        return (unknown("template.missing", "system_role", question),)
    return None


MISSING = Rule(
    id="template.missing",
    reason="A chat needs the template that the checkpoint was trained with.",
    check=_missing,
    admits=Example(config=LLAMA3, request=_CHAT, facts=RuntimeFacts(system_role="accepted")),
    refuses=Example(config=LLAMA3, request=_CHAT, facts=RuntimeFacts(system_role="no_template")),
    unknown=Example(config=LLAMA3, request=_CHAT),
)


def _default_system(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if facts.system_role != "default_inserted":
        return None
    if not request.templated or request.has_system_message:
        return None
    message = "the template writes a system message of its own where none is given"
    return (warn("template.default_system", message, hint="give a system message"),)


DEFAULT_SYSTEM = Rule(
    id="template.default_system",
    reason="A default system message is part of the prompt that nobody asked for.",
    check=_default_system,
    admits=Example(
        config=LLAMA3, request=_WITH_SYSTEM, facts=RuntimeFacts(system_role="default_inserted")
    ),
    refuses=Example(
        config=LLAMA3, request=_CHAT, facts=RuntimeFacts(system_role="default_inserted")
    ),
)


def _roles(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if not request.roles:
        return None
    reasons = [_role(role, facts) for role in dict.fromkeys(request.roles)]
    reasons.append(_alternation(request, facts))
    return [reason for reason in reasons if reason is not None]


def _role(role: str, facts: RuntimeFacts) -> Reason | None:
    treatment = (facts.role_treatment or {}).get(role)
    if treatment is not None and role != "system":
        return _treated("template.roles", role, treatment)
    if role in _ALWAYS_TAKEN:
        return None
    question = f"what the template does with a {role} message"
    return unknown("template.roles", "role_treatment", question)


def _alternation(request: Request, facts: RuntimeFacts) -> Reason | None:
    twice = next((a for a, b in pairwise(request.roles) if a == b and a != "tool"), None)
    if twice is None or facts.alternating_roles is False:
        return None
    if facts.alternating_roles is None:
        question = f"whether the template takes two {twice} turns in a row"
        return unknown("template.roles", "alternating_roles", question)
    hint = "join them into one message"
    return reject("template.roles", f"the template refuses two {twice} turns in a row", hint=hint)


ROLES = Rule(
    id="template.roles",
    reason="Roles beyond user and assistant, and repeated ones, are a template's choice.",
    check=_roles,
    admits=Example(
        config=LLAMA3,
        request=Request(prompt_tokens=100, max_new_tokens=8, roles=("user", "assistant", "user")),
    ),
    refuses=Example(
        config=LLAMA3,
        request=Request(prompt_tokens=100, max_new_tokens=8, roles=("user", "user")),
        facts=RuntimeFacts(alternating_roles=True),
    ),
    unknown=Example(
        config=LLAMA3, request=Request(prompt_tokens=100, max_new_tokens=8, roles=("tool",))
    ),
)


def _clock(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if facts.template_clock is False or not request.templated:
        return None
    if facts.system_role == "no_template":
        return None
    if facts.template_clock is None:
        question = "whether the template writes the day's date into the prompt"
        return (unknown("template.clock", "template_clock", question),)
    message = "the template writes the date, so the same request is another prompt tomorrow"
    return (warn("template.clock", message, hint="record the rendered token ids"),)


CLOCK = Rule(
    id="template.clock",
    reason="A template that reads the clock makes a rerun on another day another artefact.",
    check=_clock,
    admits=Example(config=LLAMA3, request=_CHAT, facts=RuntimeFacts(template_clock=False)),
    refuses=Example(config=LLAMA3, request=_CHAT, facts=RuntimeFacts(template_clock=True)),
    unknown=Example(config=LLAMA3, request=_CHAT),
)
