"""Probe 11 and its kin: a 16-bit dtype on hardware that is slow in it."""

from __future__ import annotations

from labkit.probes._capture import attempt
from labkit.probes._registry import ProbeContext, probe
from labkit.probes._result import Evidence, not_askable
from labkit.probes.stand_ins import random_ids, tiny_llama
from labkit.probes.timing import declares_fast, time_dtypes

# A 16-bit request is for speed or room; at twice the time of another dtype the speed is not had.
HALF_SPEED = 2.0


@probe(
    "bfloat16_on_slow_hardware",
    number=11,
    asks="bfloat16, on hardware without fast bfloat16",
)
def bfloat16_on_slow_hardware(context: ProbeContext) -> Evidence:
    """Run a model in bfloat16 and time it against the other dtypes."""
    return _ask_dtype("bfloat16", context)


@probe("float16_on_slow_hardware", asks="float16, on hardware without fast float16")
def float16_on_slow_hardware(context: ProbeContext) -> Evidence:
    """Run a model in float16 and time it against the other dtypes."""
    return _ask_dtype("float16", context)


def _ask_dtype(dtype: str, context: ProbeContext) -> Evidence:
    times = time_dtypes(context.device)
    slowdown = times.slowdown(dtype)
    declared = declares_fast(dtype, context.device)
    measured = {
        **times.to_json(),
        "slowdown": round(slowdown, 2),
        "half_speed": HALF_SPEED,
        "hardware_declares_it": declared,
    }
    if slowdown < HALF_SPEED and (declared or slowdown < 1):
        return not_askable(
            f"{dtype} is fast here: a product takes less than {HALF_SPEED:g} times as long as in "
            "the fastest other dtype",
            **measured,
        )
    asked = attempt(lambda: _run_in(dtype, context.device))
    return Evidence(
        attempt=asked,
        control=attempt(lambda: _run_in("float32", context.device)),
        did_it=asked.value == dtype and slowdown < HALF_SPEED,
        effect=f"a product's time over the fastest other dtype's; from {HALF_SPEED:g} on, "
        "the speed asked for is not had",
        measured={**measured, "dtype_of_the_logits": asked.value},
        stand_in="a tiny random Llama, and a linear layer's product for the time",
    )


def _run_in(dtype: str, device: str) -> str:
    """Run a tiny model in a dtype and return the dtype of its logits."""
    import torch

    model = tiny_llama().to(device=device, dtype=getattr(torch, dtype))
    with torch.inference_mode():
        logits = model(random_ids(8).to(device)).logits
    return str(logits.dtype).removeprefix("torch.")
