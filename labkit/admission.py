"""Accept, warn about or reject a request before any work is done.

`admit` runs every rule of `labkit.rules` and returns all reasons that apply. It is pure, needs
the standard library only, and never raises: what it cannot know, it says it does not know.
"""

from __future__ import annotations

from labkit.rules import RULES
from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Decision, Example, Outcome, Reason, Rule
from labkit.rules._request import Request
from labkit.rules._shapes import SHAPES, Shape, read_request
from labkit.spec import ModelSpec

__all__ = [
    "RULES",
    "SHAPES",
    "Decision",
    "Example",
    "Outcome",
    "Reason",
    "Request",
    "Rule",
    "RuntimeFacts",
    "Shape",
    "admit",
    "read_request",
]

_CHECKS = tuple(rule.check for rule in RULES)


def admit(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Decision:
    """Decide on a request; every rule is asked, every reason is kept.

    Args:
        spec: What the checkpoint's config decides.
        request: What the caller wants.
        facts: What is known about the runtime and the device; None means unknown.

    Returns:
        The decision, with the reasons in the order of `RULES`.
    """
    reasons: list[Reason] = []
    for check in _CHECKS:
        found = check(spec, request, facts)
        if found is not None:
            reasons.extend(found)
    return Decision(tuple(reasons))
