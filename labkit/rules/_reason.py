"""Reasons, the decision they add up to, and the rules they come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from labkit.rules._facts import RuntimeFacts
from labkit.rules._request import Request
from labkit.spec import ModelSpec

Outcome = Literal["accept", "warn", "reject"]
Number = int | float | str | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One rule's word on one request.

    Attributes:
        rule: Stable id of the rule.
        outcome: What the rule asks for.
        message: What is wrong, with its numbers.
        numbers: The same numbers, to be read by a program.
        hint: What would fit, or what to do; shown after the message.
        unknown: Name of the fact that the rule needed and nobody has learned, or "".
    """

    rule: str
    outcome: Outcome
    message: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    hint: str = ""
    unknown: str = ""

    def __str__(self) -> str:
        """Return `rule: message`."""
        return f"{self.rule}: {self.message}"

    def to_json(self) -> dict[str, object]:
        """Return a JSON object; a number that JSON cannot hold becomes its text."""
        return {
            "rule": self.rule,
            "outcome": self.outcome,
            "message": self.message,
            "numbers": {name: _finite(value) for name, value in self.numbers.items()},
            "hint": self.hint,
            "unknown": self.unknown,
        }


def _finite(value: Number) -> Number:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, slots=True)
class Decision:
    """Every reason that applies; the worst of them is the outcome."""

    reasons: tuple[Reason, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """`reject` if any reason rejects, `warn` if any warns, else `accept`."""
        asked = {reason.outcome for reason in self.reasons}
        if "reject" in asked:
            return "reject"
        return "warn" if "warn" in asked else "accept"

    @property
    def admitted(self) -> bool:
        """Whether the work may start."""
        return self.outcome != "reject"

    def __str__(self) -> str:
        """Return the outcome, then one line a reason with what would fit."""
        lines = [f"{r} ({r.hint})" if r.hint else str(r) for r in self.reasons]
        return "\n  ".join([self.outcome, *lines])

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "outcome": self.outcome,
            "admitted": self.admitted,
            "reasons": [reason.to_json() for reason in self.reasons],
        }


Found = Iterable[Reason] | None
Check = Callable[[ModelSpec, Request, RuntimeFacts], Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A case that shows a rule at work.

    Attributes:
        config: The keys of a checkpoint's config that matter.
        request: What is asked.
        facts: What is known of the runtime.
    """

    config: Mapping[str, object]
    request: Request
    facts: RuntimeFacts = field(default_factory=RuntimeFacts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One reason a request may not be honoured.

    Attributes:
        id: Stable name; every reason of the rule carries it.
        reason: Why the rule exists, in one sentence.
        check: Pure and total; returns the reasons that apply, or None.
        admits: An example on which the rule has nothing to say.
        refuses: An example on which it warns or rejects.
        unknown: An example where its fact is missing and it says so, if it needs one.
    """

    id: str
    reason: str
    check: Check
    admits: Example
    refuses: Example
    unknown: Example | None = None


def reject(rule: str, message: str, *, hint: str = "", **numbers: Number) -> Reason:
    """Return a reason not to start the work."""
    return Reason(rule=rule, outcome="reject", message=message, numbers=numbers, hint=hint)


def warn(rule: str, message: str, *, hint: str = "", **numbers: Number) -> Reason:
    """Return a reason to tell the caller before the work starts."""
    return Reason(rule=rule, outcome="warn", message=message, numbers=numbers, hint=hint)


def unknown(rule: str, fact: str, question: str, *, hint: str = "", **numbers: Number) -> Reason:
    """Return the warning that a fact is missing: unknown is not yes.

    Args:
        rule: Id of the rule that needs the fact.
        fact: Name of the missing fact.
        question: What cannot be told, to be read after "it is not known".
        hint: What to do about it; by default, to learn the fact.
        **numbers: What the rule does know.
    """
    return Reason(
        rule=rule,
        outcome="warn",
        message=f"unknown: {question}",
        numbers=numbers,
        hint=hint or f"learn the fact {fact}",
        unknown=fact,
    )
