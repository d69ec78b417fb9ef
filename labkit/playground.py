"""What the book's playground asks of the rules: three JSON texts in, an answer to show out.

The same code runs where the book is built and, by Pyodide, in the reader's browser.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import cast

from labkit.admission import RULES, Decision, Reason, RuntimeFacts, admit, read_request
from labkit.errors import LabError
from labkit.rules._json import parse_json
from labkit.spec import fingerprint

_WORDS = {"accept": "Accepted", "warn": "Admitted with a warning", "reject": "Rejected"}
_WHY = {rule.id: rule.reason for rule in RULES}


def answer(config: str, request: str, facts: str, name: str = "") -> str:
    """Decide a request and return what the page shows, as one JSON text.

    Args:
        config: The checkpoint's config.json.
        request: The request, in labkit's shape or in the OpenAI chat shape.
        facts: What is known of the runtime.
        name: What the checkpoint is called in messages.

    Returns:
        An object with `outcome` (`refused` where a text cannot be read), `summary` in one
        sentence, `html` with every reason and its numbers, and `decision` as `labkit admission
        --json` prints it, null where there is none.
    """
    try:
        decision = decide(config, request, facts, name)
    except LabError as error:
        shown: dict[str, object] = {
            "outcome": "refused",
            "summary": "Not decided: one of the texts cannot be read.",
            "html": f'<p class="labkit-reason" data-outcome="refused">{escape(str(error))}</p>',
            "decision": None,
        }
    else:
        shown = {
            "outcome": decision.outcome,
            "summary": summarise(decision),
            "html": reasons_html(decision),
            "decision": decision.to_json(),
        }
    return json.dumps(shown, ensure_ascii=False)


def decide(config: str, request: str, facts: str, name: str = "") -> Decision:
    """Decide a request from three JSON texts.

    Raises:
        LabError: If one of them cannot be read; its message says which and what to mend.
    """
    keys = cast("Mapping[str, object]", parse_json(config, what="The config"))
    spec = fingerprint(keys, name or None)  # which refuses what is no object
    known = RuntimeFacts.from_json(parse_json(facts, what="The facts"))
    return admit(spec, read_request(request, what="The request"), known)


def summarise(decision: Decision) -> str:
    """Return the outcome and how many rules spoke, in one sentence."""
    spoke = len({reason.rule for reason in decision.reasons})
    said = "none had anything to say" if not spoke else f"{spoke} spoke"
    return f"{_WORDS[decision.outcome]}: of {len(RULES)} rules asked, {said}."


def reasons_html(decision: Decision) -> str:
    """Return every reason with its numbers, the gravest first."""
    gravest = sorted(decision.reasons, key=lambda reason: reason.outcome != "reject")
    return f'<ol class="labkit-reasons">{"".join(map(_reason_html, gravest))}</ol>'


def _reason_html(reason: Reason) -> str:
    hint = f" ({escape(reason.hint)})" if reason.hint else ""
    numbers = "".join(
        f"<div><dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(_said(value))}</dd></div>"
        for name, value in reason.numbers.items()
    )
    return (
        f'<li class="labkit-reason" data-outcome="{reason.outcome}">'
        f"<p><strong>{reason.outcome}</strong> <code>{escape(reason.rule)}</code> "
        f"{escape(reason.message)}{hint}</p>"
        f"{f'<dl>{numbers}</dl>' if numbers else ''}"
        f"<p><small>Why the rule is there: {escape(_WHY[reason.rule])}</small></p></li>"
    )


def _said(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not stated"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)
