"""Are the request's own counts possible at all?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Reason, Rule, reject
from labkit.rules._request import Request
from labkit.rules.context import GPT2
from labkit.spec import ModelSpec

_LEAST = {
    "prompt_tokens": 1,
    "max_new_tokens": 1,
    "min_new_tokens": 0,
    "max_total_tokens": 1,
    "cached_tokens": 0,
    "batch_size": 1,
    "shortest_prompt_tokens": 0,
    "attention_mask_tokens": 0,
    "cache_tokens": 1,
    "window_tokens": 1,
    "sink_tokens": 0,
}


def _plain(request: Request) -> bool:
    """Return quickly whether every count that is usually set is possible."""
    return (
        (request.prompt_tokens is None or request.prompt_tokens >= 1)
        and (request.max_new_tokens is None or request.max_new_tokens >= 1)
        and request.batch_size == 1
        and request.cached_tokens == 0
        and request.sink_tokens == 0
        and request.shortest_prompt_tokens is None
        and request.min_new_tokens is None
        and request.max_total_tokens is None
        and request.attention_mask_tokens is None
        and request.cache_tokens is None
        and request.window_tokens is None
    )


def _impossible(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if _plain(request):
        return None
    return [*_too_small(request), *_uneven(request)]


def _too_small(request: Request) -> list[Reason]:
    counts = {name: getattr(request, name) for name in _LEAST}
    return [
        reject("request.counts", f"{name} must be at least {_LEAST[name]}; got {count}", got=count)
        for name, count in counts.items()
        if count is not None and count < _LEAST[name]
    ]


def _uneven(request: Request) -> list[Reason]:
    shortest, longest = request.shortest_prompt_tokens, request.prompt_tokens
    if shortest is None or longest is None or shortest <= longest:
        return []
    message = f"the shortest row has {shortest} tokens and the longest {longest}"
    return [reject("request.counts", message, shortest_tokens=shortest, longest_tokens=longest)]


COUNTS = Rule(
    id="request.counts",
    reason="A count below its least value is refused here, not deep inside a kernel.",
    check=_impossible,
    admits=Example(
        config=GPT2, request=Request(prompt_tokens=10, max_new_tokens=1, window_tokens=8)
    ),
    refuses=Example(config=GPT2, request=Request(prompt_tokens=10, max_new_tokens=0)),
)
