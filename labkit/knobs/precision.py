"""Options that declare another precision of the arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from labkit.backends.transformers import TransformersBackend
from labkit.errors import KnobError, NotApplied
from labkit.knobs.registry import Row, knob
from labkit.models import cast


@knob(
    kind="runtime",
    label="float32 arithmetic",
    rows=[Row()],
    expect=lambda group: {"dtype": "float32"},
    precision="float32",
)
def float32(backend: TransformersBackend) -> Iterator[TransformersBackend]:
    """Compute in float32 with the same stored weights; a 16-bit weight is exact in float32."""
    yield replace(backend, loaded=cast(backend.loaded, "float32"))


def _coarser(*, dtype: str) -> None:
    if dtype not in ("bfloat16", "float16"):
        raise KnobError(f"rounded_weights: dtype must be bfloat16 or float16; got {dtype!r}.")


@knob(
    kind="model",
    label="weights rounded to {dtype}",
    rows=[Row(table="more")],
    check=_coarser,
)
def rounded_weights(
    backend: TransformersBackend, *, dtype: str = "bfloat16"
) -> Iterator[TransformersBackend]:
    """Round the stored weights through a coarser dtype and compute as before.

    It tells the two halves of a declared coarser precision apart: the arithmetic may be taken
    as another unit, altered weights are another artefact.
    """
    before = backend.loaded
    changed = cast(cast(before, dtype), before.dtype)
    pairs = zip(before.model.parameters(), changed.model.parameters(), strict=True)
    altered = sum(int((left != right).sum()) for left, right in pairs)
    if not altered:
        raise NotApplied(f"rounded_weights: every stored weight is exact in {dtype}.")
    changes = backend.changes | {"weights_rounded_to": dtype, "weights_altered": altered}
    yield replace(backend, loaded=changed, changes=changes)


@knob(
    kind="runtime",
    label="bfloat16 arithmetic",
    rows=[Row(table="more")],
    expect=lambda group: {"dtype": "bfloat16"},
    precision="bfloat16",
)
def bfloat16(backend: TransformersBackend) -> Iterator[TransformersBackend]:
    """Compute in bfloat16; the unit is that arithmetic, and altered weights are counted."""
    yield replace(backend, loaded=cast(backend.loaded, "bfloat16"))
