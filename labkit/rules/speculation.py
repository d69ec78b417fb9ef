"""Does speculation keep every option of the request?"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Reason, Rule, reject, unknown
from labkit.rules._request import Request
from labkit.rules.context import GPT2
from labkit.spec import ModelSpec

_RULE = "speculation.options"
_PROCESSED = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "min_new_tokens",
)


def _speculation(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    return None if request.speculation is None else _reasons(spec, request, facts)


def _reasons(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Iterator[Reason]:
    batch, beams = request.batch_size, request.num_beams or 1
    if batch > 1:
        yield reject(_RULE, f"speculation takes one row at a time; got a batch of {batch}")
    if beams > 1:
        yield reject(_RULE, f"speculation does not search with beams; got num_beams {beams}")
    if not request.use_cache:
        yield reject(_RULE, "speculation needs a cache; use_cache is false")
    if any(layer.kind in ("recurrent", "conv") for layer in spec.cache_plan or ()):
        yield reject(_RULE, f"{spec.name} keeps a state that drafted tokens cannot be taken from")
    yield from _dropped(request, facts)


def _dropped(request: Request, facts: RuntimeFacts) -> Iterator[Reason]:
    named = [name for name in _PROCESSED if getattr(request, name) is not None]
    asked = [*named, *request.options]
    if not asked:
        return
    if facts.speculation_drops is None:
        question = f"whether {', '.join(asked)} has its effect while speculating"
        yield unknown(_RULE, "speculation_drops", question)
    elif dropped := [name for name in asked if name in facts.speculation_drops]:
        yield reject(_RULE, f"{', '.join(dropped)} has no effect while speculating")


_PENALTY = Request(
    prompt_tokens=10, max_new_tokens=8, speculation="prompt_lookup", repetition_penalty=1.2
)

SPECULATION = Rule(
    id=_RULE,
    reason="Options that the verifying step does not apply are overrun without notice.",
    check=_speculation,
    admits=Example(config=GPT2, request=_PENALTY, facts=RuntimeFacts(speculation_drops=())),
    refuses=Example(
        config=GPT2,
        request=_PENALTY,
        facts=RuntimeFacts(speculation_drops=("repetition_penalty",)),
    ),
    unknown=Example(config=GPT2, request=_PENALTY),
)
