"""Would the RoPE parameters apply, and to which function?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reach import DYNAMIC_KINDS, as_number, needed_tokens, override_kind, reach
from labkit.rules._reading import brief, nearest
from labkit.rules._reason import Example, Found, Reason, Rule, reject, warn
from labkit.rules._request import Request
from labkit.rules.context import GPT2, LLAMA3
from labkit.spec import ModelSpec

_SPELLINGS = frozenset({"rope_type", "type", "rope_theta", "partial_rotary_factor"})
_NEEDED = {
    "default": frozenset[str](),
    "linear": frozenset({"factor"}),
    "dynamic": frozenset({"factor"}),
    "yarn": frozenset({"factor", "original_max_position_embeddings"}),
    "longrope": frozenset({"short_factor", "long_factor", "original_max_position_embeddings"}),
    "llama3": frozenset(
        {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}
    ),
    "proportional": frozenset[str](),
}
_OPTIONAL = {
    "linear": frozenset({"original_max_position_embeddings"}),
    "dynamic": frozenset({"original_max_position_embeddings"}),
    "yarn": frozenset(
        {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}
    ),
    "longrope": frozenset({"attention_factor", "factor"}),
    "proportional": frozenset({"factor"}),
}


def _keys(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if request.rope_scaling is not None:
        return _override_reasons(spec, request.rope_scaling)
    if spec.rope_scaling.kind != "unknown":
        return None
    return _factor_without_type(as_number(spec.rope_scaling.factor), "the checkpoint")


def _factor_without_type(factor: float | None, whose: str) -> tuple[Reason]:
    if factor is None:
        return (reject("rope.keys", f"{whose} scales RoPE without a rope_type"),)
    message = f"{whose} gives no rope_type: requested factor {factor:g}, effective factor 1"
    hint = "name a rope_type"
    return (reject("rope.keys", message, hint=hint, requested_factor=factor, effective_factor=1),)


def _override_reasons(spec: ModelSpec, override: Mapping[str, object]) -> Iterator[Reason]:
    if spec.position_kind not in (None, "rope"):
        message = f"{spec.name} has {spec.position_kind} positions, so rope_scaling has no effect"
        yield reject("rope.keys", message)
    kind = override_kind(override)
    if kind is None:
        yield from _factor_without_type(as_number(override.get("factor")), "rope_scaling")
    elif kind not in _NEEDED:
        near = nearest(kind, _NEEDED)
        hint = f"did you mean {near}?" if near else f"known: {', '.join(_NEEDED)}"
        yield reject("rope.keys", f"rope_type {kind} is not known", hint=hint)
    else:
        yield from _key_reasons(kind, override)


def _key_reasons(kind: str, override: Mapping[str, object]) -> Iterator[Reason]:
    given = set(override) - _SPELLINGS
    if missing := sorted(_NEEDED[kind] - given):
        yield reject("rope.keys", f"rope_type {kind} needs {', '.join(missing)}")
    if unread := sorted(given - _NEEDED[kind] - _OPTIONAL.get(kind, frozenset())):
        yield reject("rope.keys", f"rope_type {kind} does not read {', '.join(unread)}")
    factor = as_number(override.get("factor"))
    if "factor" in _NEEDED[kind] & given and (factor is None or factor < 1):
        yield reject("rope.keys", f"factor must be at least 1; got {brief(override['factor'])}")


KEYS = Rule(
    id="rope.keys",
    reason="Parameters without a type, or of another type, are dropped with a warning at most.",
    check=_keys,
    admits=Example(
        config=LLAMA3,
        request=Request(
            prompt_tokens=100,
            max_new_tokens=8,
            rope_scaling={"rope_type": "linear", "factor": 2.0},
        ),
    ),
    refuses=Example(
        config=LLAMA3,
        request=Request(prompt_tokens=100, max_new_tokens=8, rope_scaling={"factor": 4.0}),
    ),
)


def _changed(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if request.rope_scaling is None:
        return None
    if request.rope_after_load:
        message = "rope_scaling written to a model that is already built changes nothing"
        return (reject("rope.override", message, hint="build the model with this config"),)
    kind = override_kind(request.rope_scaling)
    if kind not in _NEEDED or spec.position_kind not in (None, "rope"):
        return None  # it would not apply, which is for the rule `rope.keys` to say
    message = f"{kind} RoPE in place of {spec.rope_scaling.kind} makes another function"
    return (warn("rope.override", message, hint="record it as part of the artefact"),)


OVERRIDE = Rule(
    id="rope.override",
    reason="RoPE parameters belong to the model; after construction they do not even apply.",
    check=_changed,
    admits=Example(config=LLAMA3, request=Request(prompt_tokens=100, max_new_tokens=8)),
    refuses=Example(
        config=LLAMA3,
        request=Request(
            prompt_tokens=100,
            max_new_tokens=8,
            rope_scaling={"rope_type": "linear", "factor": 4.0},
            rope_after_load=True,
        ),
    ),
)


def _dynamic_cache(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if not request.use_cache:
        return None
    if request.rope_scaling is None and spec.rope_scaling.kind not in DYNAMIC_KINDS:
        return None
    span, total = reach(spec, request), needed_tokens(request, facts)
    if span.kind not in DYNAMIC_KINDS or span.trained is None or total is None:
        return None
    if total <= span.trained:
        return None
    message = (
        f"{total} tokens pass the original {span.trained}: cached keys keep the rotation of "
        "the length they were written at, so cache and full pass are two functions"
    )
    hint = f"stay within {span.trained} tokens, or set use_cache to false"
    return (
        warn(
            "rope.dynamic_cache",
            message,
            hint=hint,
            tokens=total,
            original_positions=span.trained,
        ),
    )


DYNAMIC_CACHE = Rule(
    id="rope.dynamic_cache",
    reason="Dynamic NTK changes its base with the length, cached keys do not.",
    check=_dynamic_cache,
    admits=Example(config=GPT2, request=Request(prompt_tokens=100, max_new_tokens=8)),
    refuses=Example(
        config=LLAMA3
        | {
            "max_position_embeddings": 4096,
            "rope_scaling": {"rope_type": "dynamic", "factor": 4.0},
        },
        request=Request(prompt_tokens=6000, max_new_tokens=8),
    ),
)
