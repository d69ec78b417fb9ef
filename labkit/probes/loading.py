"""Probes 8 and 13 and their kin: a model asked for in a way that it cannot be loaded."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import tempfile
from collections.abc import Iterator
from typing import Any

from labkit.probes._capture import attempt
from labkit.probes._registry import ProbeContext, probe
from labkit.probes._result import Evidence, not_askable
from labkit.probes.libraries import torch_library, transformers_library
from labkit.probes.stand_ins import random_ids, tiny_llama, tiny_llama_config

ROPE_FACTOR = 4.0
_SAVED_LLAMA = "a tiny random Llama saved to a temporary folder"


@probe(
    "flash_attention_not_installed",
    number=8,
    asks="attn_implementation='flash_attention_2', its package not installed",
)
def flash_attention_not_installed(context: ProbeContext) -> Evidence:
    """Build a model with FlashAttention and run it."""
    if importlib.util.find_spec("flash_attn") is not None:
        return not_askable("flash-attn is installed")
    # a config that a model was built from counts as checked in some releases
    config = tiny_llama_config()
    asked = attempt(lambda: _build_and_run(config, "flash_attention_2", context.device))
    return Evidence(
        attempt=asked,
        control=attempt(lambda: _build_and_run(config, "sdpa", context.device)),
        did_it=asked.value == "flash_attention_2",
        effect="which attention implementation the model that ran says it used",
        measured={"implementation_that_ran": asked.value},
        stand_in="a tiny random Llama",
    )


@probe(
    "quantised_load_without_backend",
    number=13,
    asks="a checkpoint loaded in 8 bits, bitsandbytes not installed",
)
def quantised_load_without_backend(context: ProbeContext) -> Evidence:
    """Load a saved model in 8 bits and look at the weights that came."""
    if importlib.util.find_spec("bitsandbytes") is not None:
        return not_askable("bitsandbytes is installed")
    del context
    in_8_bits = transformers_library().BitsAndBytesConfig(load_in_8bit=True)
    with _saved_llama("float32") as folder:
        control = attempt(lambda: _load(folder))
        asked = attempt(lambda: _load(folder, quantization_config=in_8_bits))
    kinds = None if asked.value is None else _linear_dtypes(asked.value)
    return Evidence(
        attempt=asked,
        control=control,
        did_it=kinds == ["int8"],
        effect="the dtypes of the linear layers' weights that were loaded",
        measured={"linear_dtypes": kinds},
        stand_in=_SAVED_LLAMA,
    )


@probe(
    "checkpoint_dtype_without_asking",
    asks="a float16 checkpoint loaded without naming a dtype, to be had as it is stored",
)
def checkpoint_dtype_without_asking(context: ProbeContext) -> Evidence:
    """Load a float16 checkpoint and look at its dtype: releases differ in the default."""
    del context
    with _saved_llama("float16") as folder:
        asked = attempt(lambda: _load(folder))
    dtypes = None if asked.value is None else _linear_dtypes(asked.value)
    return Evidence(
        attempt=asked,
        did_it=dtypes == ["float16"],
        effect="the dtype of the linear layers' weights that were loaded",
        measured={"stored": "float16", "linear_dtypes": dtypes},
        stand_in=_SAVED_LLAMA,
    )


@probe(
    "rope_scaling_set_after_build",
    asks=f"linear RoPE scaling by {ROPE_FACTOR:g}, written to the config of a model already built",
)
def rope_scaling_set_after_build(context: ProbeContext) -> Evidence:
    """Write the scaling and look at the live frequencies and logits; building anew is compared."""
    del context
    model, before = tiny_llama(), tiny_llama()
    # the key that this release builds its rotary tables from
    key = "rope_parameters" if hasattr(model.config, "rope_parameters") else "rope_scaling"
    scaling, built = _scaling_that_builds(key)
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
        stand_in="a tiny random Llama",
    )


def _scaling_that_builds(key: str) -> tuple[dict[str, Any], Any]:
    """Return linear scaling as this release spells it, and a model built so (None if none can)."""
    spellings: list[dict[str, Any]] = [
        {"rope_type": "linear", "factor": ROPE_FACTOR, "rope_theta": 10000.0},
        {"type": "linear", "factor": ROPE_FACTOR},
    ]
    for scaling in spellings:
        changes: dict[str, Any] = {key: dict(scaling)}
        built = attempt(lambda changes=changes: tiny_llama(**changes))  # type: ignore[misc]
        if not built.raised:
            return scaling, built.value
    return spellings[0], None


def _build_and_run(config: Any, implementation: str, device: str) -> str:
    """Build a model with an attention implementation, run it, and return what it says it used."""
    torch, library = torch_library(), transformers_library()
    # a refused build leaves its request in the config it was given
    model = library.AutoModelForCausalLM.from_config(
        copy.deepcopy(config), attn_implementation=implementation
    )
    model.to(device=device, dtype=torch.float16 if device.startswith("cuda") else torch.float32)
    with torch.inference_mode():
        model(random_ids(8).to(device))
    return str(model.config._attn_implementation)


@contextlib.contextmanager
def _saved_llama(dtype: str) -> Iterator[str]:
    """Save a tiny model in a dtype to a folder that is gone afterwards."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        model = tiny_llama().to(getattr(torch, dtype))
        model.config.dtype = dtype
        attempt(lambda: model.save_pretrained(folder))
        yield folder


def _load(folder: str, **options: Any) -> Any:
    return transformers_library().AutoModelForCausalLM.from_pretrained(folder, **options)


def _linear_dtypes(model: Any) -> list[str]:
    """Return the distinct dtypes of the decoder layers' matrices."""
    named = model.model.layers.named_parameters()
    return sorted({str(p.dtype).removeprefix("torch.") for _, p in named if p.ndim == 2})


def _logit_difference(one: Any, other: Any) -> float:
    import torch

    with torch.inference_mode():
        ids = random_ids(64)
        return float((one(ids).logits - other(ids).logits).abs().max())


def _live_factor(model: Any, before: Any) -> float:
    """Return by how much the live rotary frequencies were divided."""
    return float((_live_frequencies(before) / _live_frequencies(model)).median())


def _live_frequencies(model: Any) -> Any:
    """Return the rotary frequencies; releases up to 4.42 hold them layer by layer alone."""
    shared = getattr(model.model, "rotary_emb", None)
    return (shared or model.model.layers[0].self_attn.rotary_emb).inv_freq
