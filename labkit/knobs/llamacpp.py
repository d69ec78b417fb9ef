"""The same weights on llama.cpp, and llama.cpp's own options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from labkit.backends.llamacpp import CACHE_TYPES, LlamaCppBackend
from labkit.backends.llamacpp_stack import open_beside
from labkit.backends.transformers import TransformersBackend
from labkit.errors import KnobError
from labkit.knobs.registry import Row, knob

TABLE = "llamacpp"


def _known_file(*, file: str, **_: bool) -> None:
    if file not in ("plain", "published"):
        raise KnobError(f"another_stack: file must be plain or published; got {file!r}.")


@knob(
    kind="runtime",
    label="llama.cpp, {file} file, flash {flash}",
    rows=[
        Row(table="stacks"),
        Row({"flash": True}, table="stacks"),
        Row({"file": "published"}, kind="model", table="stacks"),
        Row({"file": "published", "flash": True}, kind="model", table="stacks"),
    ],
    check=_known_file,
    expect=lambda group, *, flash, **_: {"flash": "enabled" if flash else "disabled"},
)
def another_stack(
    backend: TransformersBackend, *, file: str = "plain", flash: bool = False
) -> Iterator[LlamaCppBackend]:
    """Run the same weights on llama.cpp.

    The plain file holds them in the dtype of the lane; the published one as it was fetched,
    quantised, whose kernels round activations to 8 bits as well.
    """
    weights = backend.loaded.dtype if file == "plain" else file
    yield replace(open_beside(backend.loaded, weights=weights), flash=flash)


@knob(
    kind="runtime",
    label="flash attention",
    rows=[Row(table=TABLE)],
    expect=lambda group: {"flash": "enabled"},
)
def flash_attention(backend: LlamaCppBackend) -> Iterator[LlamaCppBackend]:
    """Compute attention with llama.cpp's flash kernel."""
    yield replace(backend, flash=True)


def _positive_batch(*, tokens: int) -> None:
    if tokens < 1:
        raise KnobError(f"llama_batch: tokens must be at least 1; got tokens={tokens}.")


@knob(
    kind="runtime",
    label="passes of {tokens} tokens",
    rows=[Row({"tokens": n}, table=TABLE) for n in (64, 1)],
    check=_positive_batch,
    expect=lambda group, *, tokens: {"batch": tokens},
)
def llama_batch(backend: LlamaCppBackend, *, tokens: int = 64) -> Iterator[LlamaCppBackend]:
    """Feed the prompt `tokens` tokens a pass (`n_ubatch`)."""
    yield replace(backend, batch=tokens)


def _known_type(*, type: str) -> None:
    if type not in CACHE_TYPES:
        raise KnobError(f"llama_cache: type must be one of {', '.join(CACHE_TYPES)}; got {type!r}.")


@knob(
    kind="model",
    label="cache in {type}",
    rows=[Row({"type": name}, table=TABLE) for name in ("q8_0", "q4_0")],
    check=_known_type,
    expect=lambda group, *, type: {"cache_type": [type, type], "flash": "enabled"},
)
def llama_cache(backend: LlamaCppBackend, *, type: str = "q8_0") -> Iterator[LlamaCppBackend]:
    """Keep keys and values in another type, under flash attention, which quantised ones need."""
    yield replace(backend, cache_type=type, flash=True)
