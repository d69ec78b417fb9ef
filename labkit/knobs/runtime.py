"""Runtime options: they may reorder the arithmetic, and must not change the function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from labkit.backends.transformers import SDPA_KERNELS, TransformersBackend
from labkit.errors import KnobError, NotApplicable
from labkit.knobs.registry import Prompt, Row, knob


def _positive_chunk(*, chunk: int) -> None:
    if chunk < 1:
        raise KnobError(f"chunked_prefill: chunk must be at least 1; got chunk={chunk}.")


def _pieces(group: Sequence[Prompt], *, chunk: int) -> Mapping[str, object]:
    whole, rest = divmod(max(len(prompt.ids) for prompt in group), chunk)
    return {"prefill_pieces": [chunk] * whole + ([rest] if rest else [])}


@knob(
    kind="runtime",
    label="chunked prefill of {chunk}",
    rows=[Row({"chunk": 64}), Row({"chunk": 512})],
    check=_positive_chunk,
    expect=_pieces,
)
def chunked_prefill(
    backend: TransformersBackend, *, chunk: int = 64
) -> Iterator[TransformersBackend]:
    """Feed the prompt in pieces of `chunk` tokens; one larger than the prompt is a control."""
    yield replace(backend, prefill_chunk=chunk)


@knob(
    kind="runtime",
    label="eager attention",
    rows=[Row()],
    expect=lambda group: {"attention": "eager"},
)
def eager_attention(backend: TransformersBackend) -> Iterator[TransformersBackend]:
    """Compute attention with plain matrix products instead of the library's default."""
    model, before = backend.model, backend.model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield backend
    finally:
        model.set_attn_implementation(before)


def _known_kernel(*, kernel: str) -> None:
    if kernel not in SDPA_KERNELS:
        raise KnobError(
            f"sdpa_kernel: kernel must be one of {', '.join(SDPA_KERNELS)}; got {kernel!r}."
        )


def _only_kernel(group: Sequence[Prompt], *, kernel: str) -> Mapping[str, object]:
    return {"sdpa": [kernel], "attention": "sdpa"}


@knob(
    kind="runtime",
    label="SDPA kernel {kernel}",
    rows=[Row({"kernel": "math"})],
    check=_known_kernel,
    expect=_only_kernel,
)
def sdpa_kernel(
    backend: TransformersBackend, *, kernel: str = "math"
) -> Iterator[TransformersBackend]:
    """Allow PyTorch one kernel only for scaled dot-product attention."""
    variant = replace(backend, sdpa=kernel)
    try:
        variant.next_logits([0, 0])
    except RuntimeError as problem:
        raise NotApplicable(
            f"the kernel {kernel!r} does not run for this model on this device: {problem}"
        ) from problem
    yield variant


@knob(
    kind="runtime",
    label="static cache",
    rows=[Row()],
    expect=lambda group: {"cache": "StaticCache"},
)
def static_cache(backend: TransformersBackend) -> Iterator[TransformersBackend]:
    """Allocate the cache once at its full length instead of growing it."""
    yield replace(backend, cache="static")


def _batches(prompts: Sequence[Prompt], *, rows: int = 4) -> list[list[Prompt]]:
    """Group prompts by `rows`, shortening each from the front by another ninth.

    The first of a group keeps its length, so its solo run is the common baseline. A single
    prompt left over joins the last group, since alone it would not be padded.
    """
    groups = [list(prompts[i : i + rows]) for i in range(0, len(prompts), rows)]
    if len(groups) > 1 and len(groups[-1]) == 1:
        alone = groups.pop()
        groups[-1] += alone
    return [[_shortened(p, place=i) for i, p in enumerate(group)] for group in groups]


def _shortened(prompt: Prompt, *, place: int) -> Prompt:
    drop = (len(prompt.ids) // 9) * (place % 8)
    if not drop:
        return prompt
    ids = prompt.ids[drop:]
    return Prompt(name=f"{prompt.name}-last{len(ids)}", ids=ids)


def _several_rows(*, rows: int) -> None:
    if rows < 2:
        raise KnobError(f"padded_batch: rows must be at least 2; got rows={rows}.")


@knob(
    kind="runtime",
    label="padded batch of {rows}",
    rows=[Row()],
    group=_batches,
    check=_several_rows,
    expect=lambda group, rows: {"mask": "padding", "rows": len(group)},
)
def padded_batch(backend: TransformersBackend, *, rows: int = 4) -> Iterator[TransformersBackend]:
    """Run prompts of different lengths together, padded on the left, masked and positioned.

    Each row is compared with its solo run.
    """
    yield backend
