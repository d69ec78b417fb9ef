"""Options that store keys and values with fewer bits."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import transformers
from torch import Tensor

from labkit.backends.transformers import TransformersBackend, TransformersSession
from labkit.errors import KnobError, NotApplicable
from labkit.knobs.registry import Row, knob


class RoundedCache(transformers.DynamicCache):
    """A cache that rounds each key and value vector when it is stored."""

    def __init__(self, *, config: Any, rounding: Rounding) -> None:
        """Make an empty cache; `rounding` maps stored vectors to what is read back."""
        super().__init__(config=config)
        self._rounding = rounding

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Store rounded keys and values, and return what attention reads."""
        keys, values = self._rounding(key_states), self._rounding(value_states)
        answer: tuple[Tensor, Tensor] = super().update(keys, values, layer_idx, *args, **kwargs)
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """How a vector of `head_dim` numbers is stored: on a grid of `bits`, or in a dtype."""

    bits: int | None = None
    dtype: str | None = None

    def __call__(self, states: Tensor) -> Tensor:
        """Return the vectors as they are read back, in their own dtype."""
        if self.dtype is not None:
            return states.to(getattr(torch, self.dtype)).to(states.dtype)
        levels = 2 ** (int(self.bits or 0) - 1) - 1
        exact = states.to(torch.promote_types(states.dtype, torch.float32))
        scale = exact.abs().amax(dim=-1, keepdim=True).clamp(min=torch.finfo(exact.dtype).tiny)
        rounded: Tensor = (exact / (scale / levels)).round_().mul_(scale / levels)
        return rounded.to(states.dtype)


@dataclass(slots=True, kw_only=True)
class Rounded(TransformersSession):
    """A session over a `RoundedCache`."""

    rounding: Rounding

    def _new_cache(self) -> RoundedCache:
        return RoundedCache(config=self.backend.model.config, rounding=self.rounding)


def _with_cache(backend: TransformersBackend, rounding: Rounding) -> TransformersBackend:
    if backend.cache != "dynamic":
        raise NotApplicable(f"a rounded cache is a dynamic one; got cache={backend.cache!r}.")
    return replace(
        backend,
        session_kind=functools.partial(Rounded, rounding=rounding),
        changes=backend.changes | {"cache_bits": rounding.bits, "cache_dtype": rounding.dtype},
    )


def _sensible_bits(*, bits: int) -> None:
    if not 2 <= bits <= 16:
        raise KnobError(f"quantised_cache: bits must be between 2 and 16; got bits={bits}.")


@knob(
    kind="model",
    label="int{bits} cache",
    rows=[Row({"bits": bits}, table="more") for bits in (8, 4)],
    check=_sensible_bits,
    expect=lambda group, **_: {"cache": "RoundedCache"},
)
def quantised_cache(
    backend: TransformersBackend, *, bits: int = 8
) -> Iterator[TransformersBackend]:
    """Store each key and value vector on a symmetric grid of `bits` bits.

    Every vector is rounded, the prompt's own attention included; caches that keep the latest
    tokens exact change less.
    """
    yield _with_cache(backend, Rounding(bits=bits))


CACHE_DTYPES = ("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16")


def _storable(*, dtype: str) -> None:
    if dtype not in CACHE_DTYPES:
        raise KnobError(
            f"cache_dtype: dtype must be one of {', '.join(CACHE_DTYPES)}; got {dtype!r}."
        )


@knob(
    kind="model",
    label="cache in {dtype}",
    rows=[Row(table="more")],
    check=_storable,
    expect=lambda group, **_: {"cache": "RoundedCache"},
)
def cache_dtype(
    backend: TransformersBackend, *, dtype: str = "float8_e4m3fn"
) -> Iterator[TransformersBackend]:
    """Store keys and values in another dtype than the model's."""
    yield _with_cache(backend, Rounding(dtype=dtype))
