"""Options that compute a model's layers in another way."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from labkit.backends.transformers import TransformersBackend
from labkit.errors import KnobError, NotApplicable
from labkit.knobs.model import fake_quantise_linears
from labkit.knobs.registry import Row, knob

Hook = Callable[..., Any]


def decoder_linears(model: Any) -> list[nn.Module]:
    """Return a model's linears apart from its output head.

    Raises:
        NotApplicable: If it has none.
    """
    head = model.get_output_embeddings()
    found: list[nn.Module] = [
        m for m in model.modules() if isinstance(m, nn.Linear | Conv1D) and m is not head
    ]
    if not found:
        raise NotApplicable(f"{type(model).__name__} has no decoder linears.")
    return found


def _product(linear: Any, inputs: Tensor, weight: Tensor) -> Tensor:
    # Conv1D of GPT-2 stores its weight transposed: (in, out) instead of (out, in).
    return inputs @ (weight if isinstance(linear, Conv1D) else weight.T)


@contextlib.contextmanager
def _replaced(modules: list[nn.Module], compute: Hook) -> Iterator[None]:
    """Answer with `compute(module, inputs)` in place of each module's own result."""

    def hook(module: nn.Module, args: tuple[Tensor, ...], _: Tensor) -> Tensor:
        answer: Tensor = compute(module, args[0])
        return answer

    handles = [module.register_forward_hook(hook) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _summed_in_parts(linear: Any, inputs: Tensor, *, parts: int) -> Tensor:
    inner = inputs.shape[-1]
    edges = [inner * i // parts for i in range(parts + 1)]
    axis = 0 if isinstance(linear, Conv1D) else 1
    parts_of = (
        _product(linear, inputs[..., low:high], linear.weight.narrow(axis, low, high - low))
        for low, high in itertools.pairwise(edges)
    )
    total = functools.reduce(torch.add, parts_of)
    return total if linear.bias is None else total + linear.bias


def _several(*, parts: int) -> None:
    if parts < 2:
        raise KnobError(f"partial_sums: parts must be at least 2; got parts={parts}.")


@knob(kind="runtime", label="sums in {parts} parts", rows=[Row(table="more")], check=_several)
def partial_sums(backend: TransformersBackend, *, parts: int = 2) -> Iterator[TransformersBackend]:
    """Split the inner dimension of each linear and add the partial sums.

    This is the arithmetic of tensor parallelism over `parts` devices, on one.
    """
    linears = decoder_linears(backend.model)
    with _replaced(linears, functools.partial(_summed_in_parts, parts=parts)):
        yield backend


def _on_grid(values: Tensor, *, bits: int) -> Tensor:
    levels = 2 ** (bits - 1) - 1
    exact = values.to(torch.promote_types(values.dtype, torch.float32))
    scale = exact.abs().amax(dim=-1, keepdim=True).clamp(min=torch.finfo(exact.dtype).tiny)
    rounded: Tensor = (exact / (scale / levels)).round_().mul_(scale / levels)
    return rounded.to(values.dtype)


def _sensible_bits(*, bits: int) -> None:
    if not 2 <= bits <= 16:
        raise KnobError(f"dynamic_linears: bits must be between 2 and 16; got bits={bits}.")


@knob(
    kind="model",
    label="dynamic int{bits} linears",
    rows=[Row(table="more")],
    check=_sensible_bits,
)
def dynamic_linears(
    backend: TransformersBackend, *, bits: int = 8
) -> Iterator[TransformersBackend]:
    """Round the weights of each linear and, as it runs, each token's activations to `bits` bits.

    Sums stay in the model's dtype, so the effect of the rounding is measured and not that of
    one library's integer kernels, and it can be measured at every precision.
    """
    model = copy.deepcopy(backend.model)
    fake_quantise_linears(model, bits=bits)

    def hook(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (_on_grid(args[0], bits=bits), *args[1:])

    for linear in decoder_linears(model):
        linear.register_forward_pre_hook(hook)
    changes = backend.changes | {"dynamic_bits": bits}
    yield replace(backend, loaded=replace(backend.loaded, model=model), changes=changes)


# ---- mixtures of experts -----------------------------------------------------------------


def expert_modules(model: Any) -> list[nn.Module]:
    """Return the modules that hold a model's experts.

    Raises:
        NotApplicable: If it is no mixture of experts.
    """
    found = [m for m in model.modules() if type(m).__name__.endswith("Experts")]
    if not found:
        raise NotApplicable(f"{type(model).__name__} has no experts.")
    return found


@contextlib.contextmanager
def _rerouted(model: Any, route: Callable[..., Tensor]) -> Iterator[None]:
    """Replace the weights with which tokens reach experts: `route(module, index, weights)`."""

    def hook(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        states, index, weights, *rest = args
        return (states, index, route(module, index, weights), *rest)

    handles = [m.register_forward_pre_hook(hook) for m in expert_modules(model)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def kept_within(index: Tensor, *, experts: int, capacity: int) -> Tensor:
    """Say which of the routed tokens find room, shape of `index`: first come, first served."""
    chosen = nn.functional.one_hot(index.reshape(-1), num_classes=experts)
    place = (chosen.cumsum(dim=0) * chosen).sum(dim=1).reshape(index.shape)
    return place <= capacity


def _capped(module: Any, index: Tensor, weights: Tensor, *, factor: float) -> Tensor:
    experts = int(module.num_experts)
    capacity = max(1, math.ceil(factor * index.numel() / experts))
    return weights * kept_within(index, experts=experts, capacity=capacity)


def _some_room(*, factor: float) -> None:
    if not 0 < factor < math.inf:
        raise KnobError(f"expert_capacity: factor must be positive; got factor={factor}.")


@knob(kind="model", label="expert capacity {factor}", rows=[Row(table="more")], check=_some_room)
def expert_capacity(
    backend: TransformersBackend, *, factor: float = 1.0
) -> Iterator[TransformersBackend]:
    """Give each expert room for `factor` times its even share of a pass; the rest is dropped.

    What a token gets then depends on what else is in the pass. A factor as large as the number
    of experts drops nothing.
    """
    changes = backend.changes | {"expert_capacity": factor}
    with _rerouted(backend.model, functools.partial(_capped, factor=factor)):
        yield replace(backend, changes=changes)


def _first_only(_: Any, index: Tensor, weights: Tensor, *, count: int) -> Tensor:
    kept = weights.clone()
    kept[:, count:] = 0
    return kept / kept.sum(dim=-1, keepdim=True)


def _some_experts(*, count: int) -> None:
    if count < 1:
        raise KnobError(f"experts_per_token: count must be at least 1; got count={count}.")


@knob(kind="model", label="{count} experts a token", rows=[Row(table="more")], check=_some_experts)
def experts_per_token(
    backend: TransformersBackend, *, count: int = 1
) -> Iterator[TransformersBackend]:
    """Send each token to its `count` best experts only, their weights summing to one."""
    changes = backend.changes | {"experts_per_token": count}
    with _rerouted(backend.model, functools.partial(_first_only, count=count)):
        yield replace(backend, changes=changes)


EXPERT_KERNELS = ("eager", "batched_mm", "grouped_mm")


def _known_kernel(*, kernel: str) -> None:
    if kernel not in EXPERT_KERNELS:
        raise KnobError(
            f"experts_kernel: kernel must be one of {', '.join(EXPERT_KERNELS)}; got {kernel!r}."
        )


@knob(kind="runtime", label="experts by {kernel}", rows=[Row(table="more")], check=_known_kernel)
def experts_kernel(
    backend: TransformersBackend, *, kernel: str = "batched_mm"
) -> Iterator[TransformersBackend]:
    """Compute the experts one by one, in one batch, or as a grouped product."""
    expert_modules(backend.model)
    before = backend.model.get_experts_implementation()
    backend.model.set_experts_implementation(kernel)
    try:
        yield backend
    finally:
        backend.model.set_experts_implementation(before)
