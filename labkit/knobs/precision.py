"""Options that declare another precision of the arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from labkit.backends.transformers import TransformersBackend
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
