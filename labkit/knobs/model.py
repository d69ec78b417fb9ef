"""Options that look like settings and change which function is computed."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from labkit.backends.transformers import Mask, TransformersBackend
from labkit.errors import KnobError, NotApplicable, NotApplied
from labkit.knobs.registry import Row, knob


def fake_quantise_linears(model: Any, *, bits: int) -> int:
    """Round the weights of a model's decoder linears to a symmetric grid, in place.

    One grid per output channel: `scale = max|w| / (2**(bits-1) - 1)`, so no weight moves by
    more than half a scale (plus its dtype's own rounding). Computation stays in the model's
    dtype: the effect of rounded weights is measured, not that of low-precision kernels. The
    output head and the embeddings are left alone.

    Args:
        model: A transformers causal language model.
        bits: Width of the grid, 2 to 16.

    Returns:
        The number of weights whose value changed.

    Raises:
        KnobError: If `bits` is out of range.
        NotApplicable: If the model has no such linears.
    """
    _sensible_bits(bits=bits)
    head = model.get_output_embeddings()
    linears = [m for m in model.modules() if isinstance(m, nn.Linear | Conv1D) and m is not head]
    if not linears:
        raise NotApplicable(f"{type(model).__name__} has no decoder linears to round.")
    return sum(_round_weight(linear, bits) for linear in linears)


def _sensible_bits(*, bits: int) -> None:
    if not 2 <= bits <= 16:
        raise KnobError(f"bits must be between 2 and 16; got bits={bits}.")


def _round_weight(linear: nn.Module, bits: int) -> int:
    weight = linear.weight
    if not isinstance(weight, Tensor):
        return 0
    # Conv1D of GPT-2 stores its weight transposed: (in, out) instead of (out, in).
    inputs = 0 if isinstance(linear, Conv1D) else 1
    levels = 2 ** (bits - 1) - 1
    exact = weight.data.to(torch.promote_types(weight.dtype, torch.float32))
    scale = exact.abs().amax(dim=inputs, keepdim=True).clamp(min=torch.finfo(exact.dtype).tiny)
    rounded = (exact / (scale / levels)).round_().mul_(scale / levels).to(weight.dtype)
    changed = int((rounded != weight.data).sum())
    weight.data.copy_(rounded)
    return changed


@knob(
    kind="model",
    label="int{bits} weights",
    rows=[
        Row({"bits": 8}),
        Row({"bits": 4}),
        *(Row({"bits": bits}, table="bits") for bits in range(16, 1, -1)),
    ],
    check=_sensible_bits,
)
def quantised_weights(
    backend: TransformersBackend, *, bits: int = 8
) -> Iterator[TransformersBackend]:
    """Round the decoder's linears to `bits` bits; see `fake_quantise_linears`."""
    model = copy.deepcopy(backend.model)
    if not fake_quantise_linears(model, bits=bits):
        raise NotApplied(f"quantised_weights: no weight changed at bits={bits}.")
    changes = backend.changes | {"weight_bits": bits}
    yield replace(backend, loaded=replace(backend.loaded, model=model), changes=changes)


def _sensible_window(*, size: int, sinks: int) -> None:
    if size < 1 or sinks < 0:
        raise KnobError(f"window: size must be >= 1, sinks >= 0; got size={size}, sinks={sinks}.")


def _windowed(size: int, sinks: int, queries: Tensor, keys: Tensor) -> Tensor:
    return (queries - keys < size) | (keys < sinks)


@knob(
    kind="model",
    label="window of {size}, {sinks} sinks",
    rows=[
        Row({"size": 64}),
        Row({"size": 64, "sinks": 4}),
        Row({"size": 4096}, kind="control"),
    ],
    check=_sensible_window,
    expect=lambda group, **_: {"mask": "imposed"},
)
def window(
    backend: TransformersBackend, *, size: int = 64, sinks: int = 0
) -> Iterator[TransformersBackend]:
    """Let each token see the last `size` tokens only, and the first `sinks` ones.

    A window longer than the sequence goes through the same masked path and changes nothing:
    it is the control of the other two. In a model with windowed layers it applies as long as
    their own windows hide nothing.
    """
    mask: Mask = functools.partial(_windowed, size, sinks)
    yield replace(backend, mask=mask, changes=backend.changes | {"window": size, "sinks": sinks})


def _positive_factor(*, factor: float) -> None:
    if not 0 < factor < math.inf:
        raise KnobError(f"rope_scaling: factor must be a positive number; got factor={factor}.")


@knob(
    kind="model",
    label="RoPE scaling changed",
    rows=[Row(prompts="few")],
    check=_positive_factor,
)
def rope_scaling(
    backend: TransformersBackend, *, factor: float = 2.0
) -> Iterator[TransformersBackend]:
    """Remove the checkpoint's RoPE scaling; where it has none, impose a linear one.

    The rotary module is built anew from the changed configuration, since a configuration
    that is written after loading changes nothing; the live frequencies are then compared.
    """
    model = backend.model
    holder, rotary = _rotary_module(model)
    config = copy.deepcopy(rotary.config)
    before = dict(config.rope_parameters)
    scaled = before.get("rope_type", "default") != "default"
    kept = {key: before[key] for key in ("rope_theta", "partial_rotary_factor") if key in before}
    imposed = {"rope_type": "default"} if scaled else {"rope_type": "linear", "factor": factor}
    config.rope_parameters = kept | imposed
    changed = type(rotary)(config=config).to(rotary.inv_freq.device)
    if torch.equal(changed.inv_freq.float(), rotary.inv_freq.float()):
        raise NotApplied(f"rope_scaling: the live frequencies did not change from {before}.")
    changes = backend.changes | {"rope_parameters": config.rope_parameters}
    setattr(*holder, changed)
    try:
        yield replace(backend, changes=changes)
    finally:
        setattr(*holder, rotary)


def _rotary_module(model: Any) -> tuple[tuple[nn.Module, str], Any]:
    for parent in model.modules():
        for name, child in parent.named_children():
            settings = getattr(getattr(child, "config", None), "rope_parameters", None)
            if hasattr(child, "inv_freq") and isinstance(settings, dict):
                return (parent, name), child
    raise NotApplicable(
        f"rope_scaling does not apply to {type(model).__name__}: no rotary module with one set "
        "of frequencies was found."
    )
