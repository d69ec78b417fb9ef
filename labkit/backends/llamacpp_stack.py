"""A model on llama.cpp: the GGUF file it came from, or the same weights written out plainly.

llama.cpp has no float64, so that reference is the transformers stack's, over the same weights.
Token ids of the two stacks are compared before anything else is.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path

from labkit import models
from labkit.backends import Backend
from labkit.backends.llamacpp import LlamaCppBackend, OpenFile
from labkit.backends.observing import observe_model
from labkit.backends.transformers_stack import TransformersStack
from labkit.errors import ModelError, PromptError
from labkit.files import sha256_of

CACHE_TYPE = {"float16": "f16", "float32": "f32", "published": "f16"}
"""The type of keys and values that goes with a file's weights; llama.cpp's default is f16."""


@functools.lru_cache(maxsize=2)
def open_file(path: Path) -> OpenFile:
    """Return an open GGUF file, the last two of which are kept."""
    return OpenFile(path)


def open_beside(loaded: models.LoadedModel, *, weights: str) -> LlamaCppBackend:
    """Open the GGUF file of a loaded model.

    Args:
        loaded: The model on the transformers stack.
        weights: `float16` or `float32` for the same weights written out, `published` for the
            file itself.

    Raises:
        ModelError: If there is no such file, or it holds another vocabulary.
    """
    gguf = models.find_gguf(loaded.source)
    digest = sha256_of(gguf)
    path = gguf
    if weights in models.WRITTEN:
        path = models.written_out(gguf, dtype=weights, digest=digest)
    elif weights != "published":
        raise ModelError(
            f"llama.cpp runs float16, float32 or the published file; got weights={weights!r}."
        )
    backend = LlamaCppBackend(
        file=open_file(path), digest=digest, weights=weights, cache_type=CACHE_TYPE[weights]
    )
    _require_same_tokens(backend, loaded)
    return backend


_TRIED = "The same text, in two stacks: 2,048 tokens; café, naïve, \u201cquoted\u201d\n\tindented."


def _require_same_tokens(backend: LlamaCppBackend, loaded: models.LoadedModel) -> None:
    tokens = loaded.tokenizer.encode(_TRIED, add_special_tokens=False)
    require_equal_ids(backend.encode(_TRIED), tokens, text=_TRIED)
    table = loaded.model.get_input_embeddings().weight.shape[0]
    if backend.file.vocabulary != table:
        raise ModelError(
            "both stacks must have one vocabulary; got "
            f"llama.cpp={backend.file.vocabulary}, transformers={table}."
        )


def require_equal_ids(there: Sequence[int], here: Sequence[int], *, text: str) -> None:
    """Refuse a text that two stacks encode differently: their logits answer other questions.

    Raises:
        PromptError: Naming the first place that differs.
    """
    if list(there) == list(here):
        return
    pairs = enumerate(zip(there, here, strict=False))
    place = next((i for i, (a, b) in pairs if a != b), min(len(there), len(here)))
    raise PromptError(
        "token ids of both stacks must be equal before anything is compared; "
        f"got llama.cpp={list(there[place : place + 3])}, transformers="
        f"{list(here[place : place + 3])} from token {place} of {text[:40]!r}."
    )


class LlamaCppStack:
    """See `labkit.backends.Stack`."""

    def __init__(
        self, model: str, *, dtype: str, device: str = "cpu", revision: str | None = None
    ) -> None:
        """Name a model that has a GGUF file; see `TransformersStack` for the arguments.

        Raises:
            ModelError: If the device is not the processor.
        """
        if device != "cpu":
            raise ModelError(f"the llama.cpp stack runs on the processor; got device={device!r}.")
        self._plain = TransformersStack(model, dtype=dtype, device=device, revision=revision)

    @property
    def identity(self) -> dict[str, object]:
        """See `labkit.backends.Stack.identity`."""
        return self._plain.identity

    @property
    def positions(self) -> int | None:
        """See `labkit.backends.Stack.positions`."""
        return self._plain.positions

    def encode(self, text: str) -> list[int]:
        """See `labkit.backends.Stack.encode`; both stacks must give the same ids."""
        ids = self._plain.encode(text)
        require_equal_ids(self.backend("float16").encode(text), ids, text=text)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """See `labkit.backends.Stack.decode`."""
        return self._plain.decode(ids)

    def backend(self, precision: str) -> Backend:
        """See `labkit.backends.Stack.backend`; float64 is the transformers stack's."""
        if precision == "float64":
            return self._plain.backend(precision)
        return open_beside(self._plain.loaded, weights=precision)

    def altered_by_cast(self, precision: str) -> tuple[int, int]:
        """See `labkit.backends.Stack.altered_by_cast`."""
        return self._plain.altered_by_cast(precision)

    def depends(self) -> dict[str, object]:
        """See `labkit.backends.Stack.depends`."""
        version = importlib.metadata.version("llama-cpp-python")
        return self._plain.depends() | {"llama-cpp-python": version}

    def observe(self, precision: str, ids: Sequence[int]) -> dict[str, object]:
        """See `labkit.backends.Stack.observe`; what llama.cpp does not tell is left out."""
        model = observe_model(self._plain.loaded)
        session = open_beside(self._plain.loaded, weights=precision).session(
            capacity_tokens=len(ids)
        )
        session.next_logits([ids])
        kinds = session.observed["cache_type"]
        return {name: value for name, value in model.items() if name.startswith("identity.")} | {
            "execution.device": "cpu",
            "execution.dtype": precision,
            "execution.attention": f"llama.cpp, flash {session.observed['flash']}",
            "execution.kv_cache_dtype": "+".join(kinds) if isinstance(kinds, list) else "unknown",
            "execution.batch_rows": session.observed["rows"],
        }

    def resolved(self) -> dict[str, object]:
        """See `labkit.backends.Stack.resolved`."""
        return self._plain.resolved()

    def is_copy(self, variant: Backend, of: Backend) -> bool:
        """See `labkit.backends.Stack.is_copy`; the open files are kept by name."""
        return False

    def collect(self) -> None:
        """See `labkit.backends.Stack.collect`."""
        self._plain.collect()

    def forget(self) -> None:
        """See `labkit.backends.Stack.forget`."""
        open_file.cache_clear()
        self._plain.forget()
