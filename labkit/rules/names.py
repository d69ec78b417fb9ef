"""Is what is asked for, and stated, called by names that somebody reads?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Rule, warn
from labkit.rules._request import Request
from labkit.rules.context import GPT2
from labkit.spec import ModelSpec

_PLAIN = Request(prompt_tokens=100, max_new_tokens=8)
_SHOWN = 5  # keys in a message; the numbers hold how many there are


def _model(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    del facts
    if request.model is None or _short(request.model) == _short(spec.name):
        return None
    message = (
        f"the request names {request.model}, and the config is that of {spec.name}: a stack that "
        "serves one model may answer with it under any name"
    )
    hint = "name the model that is served, or see that both names are one model's"
    return (warn("model.name", message, hint=hint, model=request.model, served=spec.name),)


def _short(name: str) -> str:
    """Return a model's name without its owner, as `owner/Name` is the same as `name`."""
    return name.rstrip("/").rpartition("/")[2].casefold()


MODEL = Rule(
    id="model.name",
    reason="Another model is another function, and some servers read no name.",
    check=_model,
    admits=Example(config=GPT2, request=_PLAIN),
    refuses=Example(
        config=GPT2, request=Request(prompt_tokens=100, max_new_tokens=8, model="owner/another")
    ),
)


def _unread(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    del request, facts
    if not spec.unread:
        return None
    shown = ", ".join(spec.unread[:_SHOWN])
    more = len(spec.unread) - _SHOWN
    message = f"the config states {shown}{f' and {more} more' if more > 0 else ''}, which "
    message += "nothing here reads: a misspelt key does nothing, and a new one may do something"
    return (warn("config.unread", message, hint="check the spelling", unread=len(spec.unread)),)


UNREAD = Rule(
    id="config.unread",
    reason="Stacks take a key that no model reads without a word, and keep their own value.",
    check=_unread,
    admits=Example(config=GPT2, request=_PLAIN),
    refuses=Example(config=GPT2 | {"n_positionss": 64}, request=_PLAIN),
)
