"""A head size that is not the hidden size over the heads."""

from __future__ import annotations

from typing import Any

from labkit.probes._capture import attempt
from labkit.probes._registry import ProbeContext, probe
from labkit.probes._result import Evidence
from labkit.probes._subjects import cache_of, cached_keys
from labkit.probes.libraries import torch_library
from labkit.probes.stand_ins import random_ids, tiny_llama

TOKENS = 8
DIVIDED = 8  # the tiny Llama's hidden size over its heads
STATED = 2 * DIVIDED


@probe(
    "head_size_of_its_own",
    asks=f"a config that states heads of {STATED}, where the hidden size over the heads is "
    f"{DIVIDED}",
)
def head_size_of_its_own(context: ProbeContext) -> Evidence:
    """Build a model from the config, run it, and read the width of the keys in its cache."""
    control = attempt(lambda: _key_width(tiny_llama(), context.device))
    asked = attempt(lambda: _key_width(tiny_llama(head_dim=STATED), context.device))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value == STATED,
        effect="the width of a key in the cache of a run",
        measured={"stated": STATED, "built": asked.value, "built_unstated": control.value},
        stand_in="a tiny random Llama",
    )


def _key_width(model: Any, device: str) -> int | None:
    model.to(device)
    with torch_library().inference_mode():
        keys = cached_keys(cache_of(model(random_ids(TOKENS).to(device), use_cache=True)))
    return None if keys is None else int(keys.shape[-1])
