"""Does the model see exactly one beginning-of-sequence token?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Reason, Rule, unknown, warn
from labkit.rules._request import Request
from labkit.rules.context import LLAMA3
from labkit.spec import ModelSpec


def _bos(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    added = request.add_special_tokens
    if added is None:
        return None
    own, written = facts.tokenizer_bos_count, facts.template_bos_count
    if own is None:
        return (_missing_fact("tokenizer_bos_count", "the tokenizer"),)
    if request.templated and written is None:
        return (_missing_fact("template_bos_count", "the template"),)
    in_template = (written or 0) if request.templated else 0
    expected = 1 if max(own, written or 0) > 0 else 0
    count = in_template + (own if added else 0)
    if count == expected:
        return None
    hint = f"set add_special_tokens to {'false' if added else 'true'}"
    message = f"the prompt would begin with {count} BOS tokens, expected {expected}"
    return (warn("prompt.bos", message, hint=hint, bos_count=count, expected=expected),)


def _missing_fact(fact: str, who: str) -> Reason:
    return unknown("prompt.bos", fact, f"how many BOS tokens {who} writes")


_TEXT = Request(prompt_tokens=100, max_new_tokens=8, chat_template=True, add_special_tokens=True)

BOS = Rule(
    id="prompt.bos",
    reason="A second BOS, or a missing one, moves the logits and nothing complains.",
    check=_bos,
    admits=Example(
        config=LLAMA3,
        request=_TEXT,
        facts=RuntimeFacts(template_bos_count=0, tokenizer_bos_count=1),
    ),
    refuses=Example(
        config=LLAMA3,
        request=_TEXT,
        facts=RuntimeFacts(template_bos_count=1, tokenizer_bos_count=1),
    ),
    unknown=Example(config=LLAMA3, request=_TEXT),
)
