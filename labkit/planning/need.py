"""What one sequence takes of a pool, as far as it is known: at least, and at most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from labkit.config_reading.types import GROWING_KINDS, NOTHING, SHARED
from labkit.errors import PlanningError
from labkit.planning.pool import Pool, counted
from labkit.spec import LayerCache, ModelSpec

COUNTED_KINDS: Final = GROWING_KINDS | {SHARED, NOTHING}
"""Layers whose share `ModelSpec.cache_bytes` knows; the others keep a state of fixed size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Blocks or bytes of one sequence.

    Attributes:
        least: What it certainly takes.
        most: What is certainly enough; None where a part of it is not known.
        why: Why the two differ, or an empty text.
    """

    least: int
    most: int | None
    why: str = ""


def need_of(
    pool: Pool,
    tokens: int,
    *,
    spec: ModelSpec | None = None,
    bytes_per_element: int = 2,
    state_bytes: int | None = None,
) -> Need:
    """Return what a sequence takes, its length rounded up to whole blocks.

    Args:
        pool: A pool of blocks needs nothing else; one of bytes needs the spec.
        tokens: The prompt and the output that is reserved for it.
        spec: The checkpoint, whose cache plan gives the bytes.
        bytes_per_element: 2 for a cache of 16 bits, 1 for 8, 4 for 32.
        state_bytes: What its layers of fixed state keep for a sequence, where that was measured.

    Raises:
        PlanningError: If a number is not usable, the spec has no plan, the sequence is longer
            than the checkpoint's positions, or it would take nothing of the pool.
    """
    blocks = -(-counted(tokens, name="length") // pool.block_tokens)
    if spec is not None and spec.max_position is not None and tokens > spec.max_position:
        raise PlanningError(
            f"A length must be within the positions of {spec.name}; got length={tokens}, "
            f"max_position={spec.max_position}. No pool makes room for a longer one."
        )
    if pool.in_blocks:
        return Need(least=blocks, most=blocks)
    if spec is None:
        raise PlanningError(
            f"A pool of bytes needs a checkpoint to be divided; got {pool.size} and no spec. "
            "Name its config, or give the pool in tokens or blocks."
        )
    rounded = blocks * pool.block_tokens
    width = counted(bytes_per_element, name="bytes_per_element")
    most = _bytes(spec, rounded, width=width)
    least = _bytes(_windowed(spec), rounded, width=width)
    return _with_state(spec, least=least, most=most, state_bytes=state_bytes)


def _bytes(spec: ModelSpec, tokens: int, *, width: int) -> int:
    size = spec.cache_bytes(tokens=tokens, bytes_per_element=width)
    if size is None:
        raise PlanningError(
            f"The config must settle what each layer keeps; got none for {spec.name}. "
            f"{' '.join(spec.notes)}".rstrip()
        )
    return size


def _windowed(spec: ModelSpec) -> ModelSpec:
    """Return the spec with its window on every layer, where the file does not say on which."""
    window = spec.sliding_window
    if window.size is None or window.sliding_layers is not None or spec.cache_plan is None:
        return spec
    plan = tuple(replace(layer, window=window.size) for layer in spec.cache_plan)
    return replace(spec, cache_plan=plan)


def _with_state(spec: ModelSpec, *, least: int, most: int, state_bytes: int | None) -> Need:
    fixed = _fixed_layers(spec.cache_plan or ())
    if fixed and state_bytes is None:
        why = f"{fixed} layers keep a state of fixed size, which the config does not give in bytes"
        return Need(least=least, most=None, why=why)
    state = 0 if state_bytes is None else counted(state_bytes, name="state_bytes")
    if not most + state:
        raise PlanningError(
            f"A sequence must take a part of the pool; got 0 bytes for {spec.name}. "
            "Measure what its layers keep, and give it as the bytes of its state."
        )
    why = "" if least == most else "the file names a window and not the layers that have it"
    return Need(least=least + state, most=most + state, why=why)


def _fixed_layers(plan: Iterable[LayerCache]) -> int:
    return sum(layer.kind not in COUNTED_KINDS or layer.also_recurrent for layer in plan)
