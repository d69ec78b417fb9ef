"""Runtime options: they may reorder the arithmetic, and must not change the function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from labkit.backends.transformers import SDPA_KERNELS, TransformersBackend
from labkit.errors import KnobError
from labkit.knobs.registry import Prompt, Row, knob


@knob(
    kind="runtime",
    label="chunked prefill of {chunk}",
    rows=[Row({"chunk": 64}), Row({"chunk": 512})],
)
def chunked_prefill(
    backend: TransformersBackend, *, chunk: int = 64
) -> Iterator[TransformersBackend]:
    """Feed the prompt in pieces of `chunk` tokens; one larger than the prompt is a control."""
    if chunk < 1:
        raise KnobError(f"chunked_prefill: chunk must be at least 1; got chunk={chunk}.")
    yield replace(backend, prefill_chunk=chunk)


@knob(
    kind="runtime",
    label="eager attention",
    rows=[Row()],
    expect=lambda: {"attention": "eager"},
)
def eager_attention(backend: TransformersBackend) -> Iterator[TransformersBackend]:
    """Compute attention with plain matrix products instead of the library's default."""
    model, before = backend.model, backend.model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield backend
    finally:
        model.set_attn_implementation(before)


def _only_kernel(kernel: str) -> Mapping[str, object]:
    return {"sdpa": [kernel], "attention": "sdpa"}


@knob(
    kind="runtime",
    label="SDPA kernel {kernel}",
    rows=[Row({"kernel": "math"})],
    expect=_only_kernel,
)
def sdpa_kernel(
    backend: TransformersBackend, *, kernel: str = "math"
) -> Iterator[TransformersBackend]:
    """Allow PyTorch one kernel only for scaled dot-product attention."""
    if kernel not in SDPA_KERNELS:
        raise KnobError(
            f"sdpa_kernel: kernel must be one of {', '.join(SDPA_KERNELS)}; got {kernel!r}."
        )
    yield replace(backend, sdpa=kernel)


@knob(
    kind="runtime",
    label="static cache",
    rows=[Row()],
    expect=lambda: {"cache": "StaticCache"},
)
def static_cache(backend: TransformersBackend) -> Iterator[TransformersBackend]:
    """Allocate the cache once at its full length instead of growing it."""
    yield replace(backend, cache="static")


def _batches(prompts: Sequence[Prompt], *, rows: int = 4) -> list[list[Prompt]]:
    """Group prompts by `rows`, shortening each from the front by another ninth.

    The first of a group keeps its length, so its solo run is the common baseline.
    """
    groups = [prompts[i : i + rows] for i in range(0, len(prompts), rows)]
    return [[_shortened(p, place=i) for i, p in enumerate(group)] for group in groups]


def _shortened(prompt: Prompt, *, place: int) -> Prompt:
    drop = (len(prompt.ids) // 9) * (place % 8)
    if not drop:
        return prompt
    ids = prompt.ids[drop:]
    return Prompt(name=f"{prompt.name}-last{len(ids)}", ids=ids)


@knob(
    kind="runtime",
    label="padded batch of {rows}",
    rows=[Row()],
    group=_batches,
)
def padded_batch(backend: TransformersBackend, *, rows: int = 4) -> Iterator[TransformersBackend]:
    """Run prompts of different lengths together, padded on the left, masked and positioned.

    Each row is compared with its solo run.
    """
    if rows < 1:
        raise KnobError(f"padded_batch: rows must be at least 1; got rows={rows}.")
    yield backend
