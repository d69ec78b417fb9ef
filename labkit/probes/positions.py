"""Rotary positions asked for in a way that does not reach the function, or not all of it."""

from __future__ import annotations

from typing import Any

from labkit.probes._capture import attempt
from labkit.probes._registry import ProbeContext, probe
from labkit.probes._result import Evidence, not_askable
from labkit.probes.libraries import torch_library
from labkit.probes.stand_ins import random_ids, tiny_llama

ROPE_FACTOR = 4.0
ORIGINAL_POSITIONS = 32
PROMPT_TOKENS = 80  # past the original positions, inside four times as many
# Cached and whole passes differ by rounding; another function is thousands of roundings away.
MOST_ROUNDINGS = 100
_STAND_IN = "a tiny random Llama"


@probe(
    "rope_scaling_set_after_build",
    asks=f"linear RoPE scaling by {ROPE_FACTOR:g}, written to the config of a model already built",
)
def rope_scaling_set_after_build(context: ProbeContext) -> Evidence:
    """Write the scaling and look at the live frequencies and logits; building anew is compared."""
    del context
    model, before = tiny_llama(), tiny_llama()
    key = scaling_key(model)
    scaling, built = _scaling_that_builds(key, "linear")
    asked = attempt(lambda: setattr(model.config, key, dict(scaling)))
    difference = _logit_difference(model, before)
    return Evidence(
        attempt=asked,
        did_it=difference > 0,
        effect="the largest change of a logit that the written scaling caused",
        measured={
            "logit_change": difference,
            "logit_change_when_built_so": (
                None if built is None else _logit_difference(built, before)
            ),
            "factor_in_the_live_frequencies": _live_factor(model, before),
            "config_now_says": getattr(model.config, key)["factor"],
        },
        stand_in=_STAND_IN,
    )


@probe(
    "rope_scaling_without_type",
    asks=f"RoPE scaling by {ROPE_FACTOR:g}, in a config that does not say of which type",
)
def rope_scaling_without_type(context: ProbeContext) -> Evidence:
    """Build a model from a factor alone and look for it in the live frequencies."""
    del context
    plain = tiny_llama()
    changes: dict[str, Any] = {scaling_key(plain): {"factor": ROPE_FACTOR}}
    asked = attempt(lambda: tiny_llama(**changes))
    built = asked.value
    factor = None if built is None else _live_factor(built, plain)
    return Evidence(
        attempt=asked,
        control=attempt(tiny_llama),
        did_it=factor == ROPE_FACTOR,
        effect="by how much the live rotary frequencies are divided",
        measured={
            "requested_factor": ROPE_FACTOR,
            "factor_in_the_live_frequencies": factor,
            "logit_change": None if built is None else _logit_difference(built, plain),
        },
        stand_in=_STAND_IN,
    )


@probe(
    "dynamic_rope_with_a_cache",
    asks=f"dynamic RoPE scaling with a cache, {PROMPT_TOKENS} tokens past {ORIGINAL_POSITIONS} "
    "original positions",
)
def dynamic_rope_with_a_cache(context: ProbeContext) -> Evidence:
    """Read a text token by token and at once; plain RoPE shows what rounding makes of it."""
    del context
    plain = tiny_llama(positions=ORIGINAL_POSITIONS)
    _, built = _scaling_that_builds(scaling_key(plain), "dynamic", positions=ORIGINAL_POSITIONS)
    if built is None:
        return not_askable("this release builds no model with dynamic scaling")
    control = attempt(lambda: _last_logits(plain, whole=False))
    asked = attempt(lambda: _last_logits(built, whole=False))
    if control.value is None:
        return not_askable("this release hands no cache on from step to step")
    gap = None if asked.value is None else _gap(asked.value, _last_logits(built, whole=True))
    rounding = _gap(control.value, _last_logits(plain, whole=True))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=gap is not None and gap <= MOST_ROUNDINGS * rounding,
        effect="the largest difference of a last-token logit between the cached steps and one "
        "pass over the same text",
        measured={"gap": gap, "gap_without_scaling": rounding, "tokens": PROMPT_TOKENS},
        stand_in=_STAND_IN,
    )


def scaling_key(model: Any) -> str:
    """Return the key that this release builds its rotary tables from."""
    return "rope_parameters" if hasattr(model.config, "rope_parameters") else "rope_scaling"


def _scaling_that_builds(key: str, kind: str, **changes: Any) -> tuple[dict[str, Any], Any]:
    """Return a scaling as this release spells it, and a model built so (None if none can)."""
    spellings: list[dict[str, Any]] = [
        {"rope_type": kind, "factor": ROPE_FACTOR, "rope_theta": 10000.0},
        {"type": kind, "factor": ROPE_FACTOR},
    ]
    for scaling in spellings:
        asked: dict[str, Any] = {**changes, key: dict(scaling)}
        built = attempt(lambda asked=asked: tiny_llama(**asked))  # type: ignore[misc]
        if not built.raised:
            return scaling, built.value
    return spellings[0], None


def _last_logits(model: Any, *, whole: bool) -> Any:
    """Return the last token's logits of one pass, or of single steps on a cache."""
    ids = random_ids(PROMPT_TOKENS)
    with torch_library().inference_mode():
        if whole:
            return model(ids).logits[0, -1]
        output, cache = None, None
        for step in ids.split(1, dim=1):
            output = model(step, past_key_values=cache, use_cache=True)
            cache = output.past_key_values
    return None if output is None else output.logits[0, -1]


def _gap(one: Any, other: Any) -> float:
    return float((one - other).abs().max())


def _logit_difference(one: Any, other: Any) -> float:
    ids = random_ids(64)
    with torch_library().inference_mode():
        return _gap(one(ids).logits, other(ids).logits)


def _live_factor(model: Any, before: Any) -> float:
    """Return by how much the live rotary frequencies were divided."""
    return float((_live_frequencies(before) / _live_frequencies(model)).median())


def _live_frequencies(model: Any) -> Any:
    """Return the rotary frequencies; releases up to 4.42 hold them layer by layer alone."""
    shared = getattr(model.model, "rotary_emb", None)
    return (shared or model.model.layers[0].self_attn.rotary_emb).inv_freq
