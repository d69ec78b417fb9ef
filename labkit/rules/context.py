"""Does the request fit the model's positions?"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reach import (
    EXTENDING_KINDS,
    NO_TOKENIZER_LIMIT,
    as_number,
    needed_tokens,
    reach,
    tokenizer_limit,
)
from labkit.rules._reason import Example, Found, Reason, Rule, reject, unknown, warn
from labkit.rules._request import Request
from labkit.spec import ModelSpec

GPT2 = {"model_type": "gpt2", "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}
LLAMA3 = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
    },
}


def _what_fits(limit: int, request: Request) -> str:
    new = request.max_new_tokens or 0
    room = limit - request.cached_tokens - new
    if room >= 1 and new > 0:
        return f"at most {room} prompt tokens with {new} new ones"
    if room >= 1:
        return f"at most {room} prompt tokens"
    left = limit - request.cached_tokens - (request.prompt_tokens or 0)
    return f"at most {left} new tokens with this prompt" if left > 0 else "nothing fits"


def _exceeds(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    total = needed_tokens(request, facts)
    if total is None:
        question = "how many tokens the prompt has"
        return (unknown("context", "prompt_tokens", question, hint="count the prompt's tokens"),)
    shipped = spec.max_position
    if shipped is not None and total <= shipped and request.rope_scaling is None:
        return None
    limit = reach(spec, request).limit
    if limit is None or total <= limit:
        return None
    message = f"{total} tokens exceed the {limit} positions of {spec.name}"
    hint = _what_fits(limit, request)
    return (reject("context", message, hint=hint, tokens=total, positions=limit),)


CONTEXT = Rule(
    id="context",
    reason="Beyond its positions a model fails with an unrelated error or loses its quality.",
    check=_exceeds,
    admits=Example(config=GPT2, request=Request(prompt_tokens=1016, max_new_tokens=8)),
    refuses=Example(config=GPT2, request=Request(prompt_tokens=1200, max_new_tokens=8)),
    unknown=Example(config=GPT2, request=Request(max_new_tokens=8)),
)


def _inside_extension(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if request.rope_scaling is None and spec.rope_scaling.kind not in EXTENDING_KINDS:
        return None
    total, original = needed_tokens(request, facts), spec.rope_scaling.original_max_position
    if total is None or (request.rope_scaling is None and total <= (original or 0)):
        return None
    span = reach(spec, request)
    if span.limit is None or total > span.limit:
        return None
    if span.trained is None:
        factor = span.factor or 0
        question = f"where the original positions of {spec.name} end, before its extension"
        found = unknown("context.extension", "original_max_position", question, tokens=total)
        return None if 0 < (as_number(total) or 0) * factor <= span.limit else (found,)
    if total <= span.trained:
        return None
    message = (
        f"{total} tokens pass the {span.trained} original positions of {spec.name}, "
        f"inside its {span.kind} extension to {span.limit}"
    )
    return (
        warn(
            "context.extension",
            message,
            hint=f"{span.trained} tokens stay within the original length",
            tokens=total,
            original_positions=span.trained,
            positions=span.limit,
        ),
    )


EXTENSION = Rule(
    id="context.extension",
    reason="Beyond the original length it is the extension, a model decision, that is trusted.",
    check=_inside_extension,
    admits=Example(config=LLAMA3, request=Request(prompt_tokens=8000, max_new_tokens=192)),
    refuses=Example(config=LLAMA3, request=Request(prompt_tokens=20000, max_new_tokens=48)),
    unknown=Example(
        config=LLAMA3 | {"rope_scaling": {"type": "linear", "factor": 4.0}},
        request=Request(prompt_tokens=100_000, max_new_tokens=48),
    ),
)


def _limit_unknown(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if spec.max_position is not None or reach(spec, request).limit is not None:
        return None
    question = f"how many positions {spec.name} has, so nothing bounds the request"
    hint = "state the limit in the config"
    return (unknown("context.limit_unknown", "max_position", question, hint=hint),)


LIMIT_UNKNOWN = Rule(
    id="context.limit_unknown",
    reason="A file that states no limit is not a file that promises none.",
    check=_limit_unknown,
    admits=Example(config=GPT2, request=Request(prompt_tokens=10, max_new_tokens=8)),
    refuses=Example(
        config={key: value for key, value in GPT2.items() if key != "n_positions"},
        request=Request(prompt_tokens=10, max_new_tokens=8),
    ),
)


def _budget(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    new, whole = request.max_new_tokens, request.max_total_tokens
    least, limit = request.min_new_tokens, spec.max_position
    if new is not None and whole is None and least is None and (limit is None or new <= limit):
        return None
    return [*_budget_reasons(spec, request), *_default_reasons(request, facts)]


def _default_reasons(request: Request, facts: RuntimeFacts) -> Iterator[Reason]:
    """Yield what becomes of a limit on the whole where only the library limits the new tokens."""
    whole, rule, fact = request.max_total_tokens, "context.budget", "generation_defaults"
    if whole is None or request.max_new_tokens is not None:
        return
    if facts.generation_defaults is None:
        question = f"whether a limit of new tokens by default wins over max_total_tokens {whole}"
        yield unknown(rule, fact, question, hint="set max_new_tokens", max_total_tokens=whole)
        return
    default, prompt = facts.generation_defaults.get("max_new_tokens"), request.prompt_tokens
    if isinstance(default, int) and (prompt is None or prompt + default != whole):
        message = f"max_total_tokens {whole} loses against {default} new tokens by default"
        hint = "set max_new_tokens in the request"
        yield warn(rule, message, hint=hint, max_total_tokens=whole, default_new_tokens=default)


def _budget_reasons(spec: ModelSpec, request: Request) -> Iterator[Reason]:
    new, whole, least = request.max_new_tokens, request.max_total_tokens, request.min_new_tokens
    rule, limit = "context.budget", reach(spec, request).limit
    prompt = request.prompt_tokens
    if new is None and whole is None:
        message = "max_new_tokens is not given, so the library would take a limit of its own"
        yield warn(rule, message, hint="set max_new_tokens")
    if new is not None and limit is not None and new > limit:
        message = f"{new} new tokens alone exceed the {limit} positions of {spec.name}"
        yield reject(rule, message, max_new_tokens=new, positions=limit)
    if new is not None and whole is not None and prompt is not None and whole != prompt + new:
        message = f"max_total_tokens {whole} loses against {prompt} prompt and {new} new tokens"
        yield warn(rule, message, max_total_tokens=whole, tokens=prompt + new)
    if new is None and whole is not None and prompt is not None and whole <= prompt:
        message = f"max_total_tokens {whole} leaves no room after {prompt} prompt tokens"
        yield reject(rule, message, max_total_tokens=whole, prompt_tokens=prompt)
    if new is not None and least is not None and least > new:
        message = f"min_new_tokens {least} exceeds max_new_tokens {new}"
        yield reject(rule, message, min_new_tokens=least, max_new_tokens=new)


BUDGET = Rule(
    id="context.budget",
    reason="Servers clamp a budget that cannot be met, and two limits resolve in silence.",
    check=_budget,
    admits=Example(config=GPT2, request=Request(prompt_tokens=10, max_new_tokens=200)),
    refuses=Example(config=GPT2, request=Request(prompt_tokens=10, max_new_tokens=120_000)),
)


def _truncated(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if not request.truncation or request.prompt_tokens is None:
        return None
    prompt, stored, limit = request.prompt_tokens, facts.tokenizer_max_tokens, spec.max_position
    rule = "context.truncation"
    if stored is None and (limit is None or prompt > limit):
        question = f"whether truncation would cut anything of {prompt} tokens"
        return (unknown(rule, "tokenizer_max_tokens", question, prompt_tokens=prompt),)
    if stored is None:
        return None
    if stored > NO_TOKENIZER_LIMIT and (limit is None or prompt > limit):
        message = f"the tokenizer stores no limit, so all {prompt} tokens would stay"
        hint = f"cut to {limit} tokens by number" if limit else "cut by number"
        return (reject(rule, message, hint=hint, prompt_tokens=prompt),)
    if prompt <= stored:
        return None
    message = f"truncation would drop {prompt - stored} of {prompt} prompt tokens"
    return (warn(rule, message, prompt_tokens=prompt, kept_tokens=stored),)


TRUNCATION = Rule(
    id="context.truncation",
    reason="Truncation changes the input, or cuts nothing where the tokenizer has no limit.",
    check=_truncated,
    admits=Example(
        config=GPT2,
        request=Request(prompt_tokens=900, max_new_tokens=8, truncation=True),
        facts=RuntimeFacts(tokenizer_max_tokens=1024),
    ),
    refuses=Example(
        config=GPT2,
        request=Request(prompt_tokens=2000, max_new_tokens=8, truncation=True),
        facts=RuntimeFacts(tokenizer_max_tokens=10**30),
    ),
    unknown=Example(
        config=GPT2, request=Request(prompt_tokens=2000, max_new_tokens=8, truncation=True)
    ),
)


def _tokenizer(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if facts.tokenizer_max_tokens is None or request.prompt_tokens is None or request.truncation:
        return None
    stored, prompt = tokenizer_limit(facts), request.prompt_tokens
    if stored is None or prompt <= stored:
        return None
    if spec.max_position is not None and stored >= spec.max_position:
        return None
    message = f"{prompt} prompt tokens exceed the tokenizer's own limit of {stored}"
    return (warn("context.tokenizer", message, prompt_tokens=prompt, tokenizer_tokens=stored),)


TOKENIZER = Rule(
    id="context.tokenizer",
    reason="A tokenizer's limit below the model's says which length the checkpoint was made for.",
    check=_tokenizer,
    admits=Example(
        config=GPT2,
        request=Request(prompt_tokens=500, max_new_tokens=8),
        facts=RuntimeFacts(tokenizer_max_tokens=512),
    ),
    refuses=Example(
        config=GPT2,
        request=Request(prompt_tokens=600, max_new_tokens=8),
        facts=RuntimeFacts(tokenizer_max_tokens=512),
    ),
)
