"""What the benchmark knows of an option: how it is applied, and what it truly is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from labkit.backends.transformers import TransformersBackend
from labkit.knobs import Option, parse_option
from labkit.knobs.layers import decoder_linears

PRESERVE, CHANGE, DEFECT = "preserves", "changes", "defect"
NOWHERE = frozenset({"nowhere"})

Apply = Callable[[TransformersBackend], AbstractContextManager[TransformersBackend]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An option or a defect with its truth, known from how it was made.

    Attributes:
        name: What the tables call it.
        truth: `preserves`, `changes` or `defect`.
        apply: Applies it to a backend for the length of a `with` block.
        needs: Traits a subject must have, all of them.
        spares: Traits of which a subject may have none.
        truth_where: Another truth on subjects with a trait.
        option: The registered option it is, with its groups and what must be seen of it.
    """

    name: str
    truth: str
    apply: Apply
    needs: frozenset[str] = frozenset()
    spares: frozenset[str] = frozenset()
    truth_where: Mapping[str, str] = field(default_factory=dict)
    option: Option | None = None

    def fits(self, traits: frozenset[str]) -> bool:
        """Say whether the case means anything on a subject."""
        return self.needs <= traits and not self.spares & traits

    def truth_on(self, traits: frozenset[str]) -> str:
        """Return what it truly is on a subject."""
        special = [truth for trait, truth in self.truth_where.items() if trait in traits]
        return special[0] if special else self.truth


def case(truth: str, name: str, **limits: Any) -> Callable[[Callable[..., Iterator[Any]]], Case]:
    """Make a case of a generator function that takes a backend and yields the changed one."""

    def make(function: Callable[..., Iterator[Any]]) -> Case:
        sets = {k: frozenset(v) if k in ("needs", "spares") else v for k, v in limits.items()}
        made = Case(name=name, truth=truth, apply=contextlib.contextmanager(function), **sets)
        CASES.append(made)
        return made

    return make


CASES: list[Case] = []


def _add(truth: str, spelled: str, **limits: Any) -> None:
    option = parse_option(spelled)
    sets = {k: frozenset(v) if k in ("needs", "spares") else v for k, v in limits.items()}
    CASES.append(Case(name=spelled, truth=truth, apply=option.applied, option=option, **sets))


# An imposed mask takes the place of a model's own window, and its layers keep no more keys.
_UNWINDOWED = {"spares": {"window"}}
_SDPA = {"spares": {"softcap"}}  # its soft-cap leaves Gemma-2 with eager attention only

for chunk in (1, 7, 16, 512):
    _add(PRESERVE, f"chunked_prefill:chunk={chunk}")
_add(PRESERVE, "eager_attention", **_SDPA)
_add(PRESERVE, "sdpa_kernel:kernel=math", **_SDPA)
_add(PRESERVE, "static_cache")
_add(PRESERVE, "padded_batch:rows=2")
_add(PRESERVE, "padded_batch:rows=4")
_add(PRESERVE, "no_cache")
_add(PRESERVE, "prefix_cache:share=0.5")
_add(PRESERVE, "verification:tokens=4,rejected=0")
_add(PRESERVE, "verification:tokens=3,rejected=2")
_add(PRESERVE, "assisted:tokens=3,bits=6", needs={"tiny"})
_add(PRESERVE, "in_company:others=3")
_add(PRESERVE, "left_padding:pads=8,positions=true,mask=true")
_add(PRESERVE, "left_padding:pads=8,positions=false,mask=true", truth_where={"learned": CHANGE})
_add(PRESERVE, "partial_sums:parts=2")
_add(PRESERVE, "partial_sums:parts=7")
_add(PRESERVE, "window:size=4096", **_UNWINDOWED)
_add(PRESERVE, "repeated")
_add(PRESERVE, "experts_kernel:kernel=batched_mm", needs={"experts"})
_add(PRESERVE, "expert_capacity:factor=4.0", needs={"experts"})
# A token goes to two of four experts, so at twice the even share there is room for all of them.
_add(PRESERVE, "expert_capacity:factor=2.0", needs={"experts"})

for bits in (16, 12, 10, 8, 6, 4, 3):
    _add(CHANGE, f"quantised_weights:bits={bits}", spares={"experts"})
_add(CHANGE, "dynamic_linears:bits=8")
_add(CHANGE, "quantised_cache:bits=8")
_add(CHANGE, "quantised_cache:bits=4")
_add(CHANGE, "cache_dtype:dtype=float8_e4m3fn")
_add(CHANGE, "cache_dtype:dtype=bfloat16")
_add(CHANGE, "window:size=8", **_UNWINDOWED)
_add(CHANGE, "window:size=8,sinks=2", **_UNWINDOWED)
_add(CHANGE, "rope_scaling", needs={"rope"})
_add(CHANGE, "stretched_rope:kind=yarn,factor=2.0,original=32", needs={"rope"})
_add(CHANGE, "stretched_rope:kind=dynamic,factor=2.0,original=32", needs={"rope", "tiny"})
_add(CHANGE, "left_padding:pads=8,positions=true,mask=false")
_add(CHANGE, "truncation:keep=0.5")
for factor in (1.25, 1.0, 0.5):  # at 1.5 only some of the prompts reach the bound
    _add(CHANGE, f"expert_capacity:factor={factor}", needs={"experts"})
_add(CHANGE, "experts_per_token:count=1", needs={"experts"})


@contextlib.contextmanager
def changed(target: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute for the length of a `with` block."""
    before = getattr(target, name)
    setattr(target, name, value)
    try:
        yield
    finally:
        setattr(target, name, before)


@contextlib.contextmanager
def rewritten(parameter: Any, rewrite: Callable[[Any], Any]) -> Iterator[None]:
    """Change a parameter's or buffer's values in place, and bring the old ones back."""
    before = parameter.data.clone()
    parameter.data.copy_(rewrite(before.clone()))
    try:
        yield
    finally:
        parameter.data.copy_(before)


@contextlib.contextmanager
def hooked(modules: list[Any], hook: Callable[..., Any]) -> Iterator[None]:
    """Pass each module's result through `hook(result)`."""
    handles = [m.register_forward_hook(lambda _m, _i, out: hook(out)) for m in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@case(CHANGE, "logits over a temperature of 0.9")
def temperature(backend: TransformersBackend) -> Iterator[TransformersBackend]:
    """No greedy token moves, and every probability does."""
    with hooked([backend.model.get_output_embeddings()], lambda out: out / 0.9):
        yield backend


@case(CHANGE, "logits rounded to bfloat16")
def rounded_logits(backend: TransformersBackend) -> Iterator[TransformersBackend]:
    """The output head answers in bfloat16 whatever the precision."""
    head = backend.model.get_output_embeddings()
    with hooked([head], lambda out: out.to(torch.bfloat16).to(out.dtype)):
        yield backend


@case(CHANGE, "one weight in a hundred pruned")
def pruned(backend: TransformersBackend) -> Iterator[TransformersBackend]:
    """The smallest hundredth of each linear is set to zero."""
    with contextlib.ExitStack() as stack:
        for linear in decoder_linears(backend.model):
            stack.enter_context(rewritten(linear.weight, _without_smallest))
        yield replace(backend)


def _without_smallest(weight: Any) -> Any:
    cut = weight.float().abs().flatten().kthvalue(max(1, weight.numel() // 100)).values
    return weight.masked_fill_(weight.float().abs() <= cut, 0)
