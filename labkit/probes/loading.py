"""Probes 8 and 13 and their kin: a model asked for in a way that it cannot be loaded."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labkit.probes._capture import attempt
from labkit.probes._registry import ProbeContext, probe
from labkit.probes._result import Evidence, not_askable
from labkit.probes.libraries import torch_library, transformers_library
from labkit.probes.stand_ins import random_ids, tiny_llama, tiny_llama_config

UNKNOWN_METHOD = "lattice-4bit"
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
    "quantisation_of_an_unknown_method",
    asks=f"a checkpoint that is stored in {UNKNOWN_METHOD}, a method this release does not know",
)
def quantisation_of_an_unknown_method(context: ProbeContext) -> Evidence:
    """Load a checkpoint whose config names the method and look at the weights that came."""
    del context
    with _saved_llama("float32") as folder:
        control = attempt(lambda: _load(folder))
        _write_quantisation(Path(folder) / "config.json")
        asked = attempt(lambda: _load(folder))
    model = asked.value
    return Evidence(
        attempt=asked,
        control=control,
        did_it=model is not None and _linear_dtypes(model) != ["float32"],
        effect="whether any linear layer's weights are other than the plain ones",
        measured={
            "linear_dtypes": None if model is None else _linear_dtypes(model),
            "config_still_says": None if model is None else _stated_method(model),
        },
        stand_in=f"{_SAVED_LLAMA}, its config changed",
    )


def _write_quantisation(config: Path) -> None:
    stated = json.loads(config.read_text(encoding="utf-8"))
    stated["quantization_config"] = {"quant_method": UNKNOWN_METHOD, "bits": 4}
    config.write_text(json.dumps(stated), encoding="utf-8")


def _stated_method(model: Any) -> str | None:
    """Return the method that the loaded model's config names."""
    stated = getattr(model.config, "quantization_config", None)
    return dict(stated).get("quant_method") if isinstance(stated, Mapping) else None


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
