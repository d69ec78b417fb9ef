"""Is every window and sink one the runtime can apply?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Rule, reject, unknown, warn
from labkit.rules._request import Request
from labkit.rules.context import GPT2
from labkit.spec import ModelSpec

MISTRAL = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
}


def _imposed(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    window = request.window_tokens
    if window is None:
        return None
    if facts.window_override_supported is False:
        message = f"this runtime cannot impose a window of {window} tokens"
        return (reject("window", message, window_tokens=window),)
    if facts.window_override_supported is None:
        question = f"whether a window of {window} tokens would be applied"
        return (unknown("window", "window_override_supported", question, window_tokens=window),)
    total = request.total_tokens
    if total is not None and total <= window:
        return None
    message = f"a window of {window} tokens makes another function of {spec.name}"
    hint = f"up to {window} tokens it changes nothing; record it as part of the artefact"
    return (warn("window", message, hint=hint, tokens=total, window_tokens=window),)


WINDOW = Rule(
    id="window",
    reason="A window on a model not trained with it is another model.",
    check=_imposed,
    admits=Example(
        config=GPT2,
        request=Request(prompt_tokens=300, max_new_tokens=48, window_tokens=512),
        facts=RuntimeFacts(window_override_supported=True),
    ),
    refuses=Example(
        config=GPT2,
        request=Request(prompt_tokens=300, max_new_tokens=48, window_tokens=64),
        facts=RuntimeFacts(window_override_supported=True),
    ),
    unknown=Example(
        config=GPT2, request=Request(prompt_tokens=300, max_new_tokens=48, window_tokens=64)
    ),
)


def _sinks(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    sinks, window, rule = request.sink_tokens, request.window_tokens, "window.sinks"
    if sinks <= 0:
        return None
    if window is None:
        message = f"{sinks} sink tokens without a window would be ignored"
        return (reject(rule, message, hint="set window_tokens", sink_tokens=sinks),)
    if sinks >= window:
        message = f"{sinks} sink tokens fill the window of {window}"
        return (reject(rule, message, sink_tokens=sinks, window_tokens=window),)
    if facts.sinks_supported is None:
        return (unknown(rule, "sinks_supported", f"whether {sinks} sink tokens would stay"),)
    if facts.sinks_supported:
        return None
    message = f"this runtime cannot keep {sinks} sink tokens beside a window"
    return (reject(rule, message, sink_tokens=sinks),)


_SINKS_ASKED = Request(prompt_tokens=300, max_new_tokens=48, window_tokens=64, sink_tokens=4)

SINKS = Rule(
    id="window.sinks",
    reason="Sinks are dropped in silence without a window or without support for them.",
    check=_sinks,
    admits=Example(config=GPT2, request=_SINKS_ASKED, facts=RuntimeFacts(sinks_supported=True)),
    refuses=Example(
        config=GPT2, request=Request(prompt_tokens=300, max_new_tokens=48, sink_tokens=4)
    ),
    unknown=Example(config=GPT2, request=_SINKS_ASKED),
)


def _own_window(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    window = spec.sliding_window
    if not window.enabled or facts.window_supported or window.size is None:
        return None
    size, total = window.size, request.total_tokens
    if total is None or total <= size:
        return None
    if facts.window_supported is None:
        question = f"whether this runtime applies the window of {size} tokens of {spec.name}"
        return (unknown("window.own", "window_supported", question, window_tokens=size),)
    message = f"{total} tokens pass the window of {size}, which this runtime does not apply"
    hint = f"exact up to {size} tokens only"
    return (reject("window.own", message, hint=hint, tokens=total, window_tokens=size),)


_LONG = Request(prompt_tokens=8000, max_new_tokens=192)

OWN_WINDOW = Rule(
    id="window.own",
    reason="Without the model's own window the result is exact only up to its size.",
    check=_own_window,
    admits=Example(config=MISTRAL, request=_LONG, facts=RuntimeFacts(window_supported=True)),
    refuses=Example(config=MISTRAL, request=_LONG, facts=RuntimeFacts(window_supported=False)),
    unknown=Example(config=MISTRAL, request=_LONG),
)
