"""The adapter for llama.cpp, through the low-level functions of llama-cpp-python.

A model file is opened once and shared; each session has a context of its own, in which every
row of the batch is a sequence. What is in force is read from the lines that llama.cpp itself
writes when it makes the context, and from the context's own getters.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.metadata
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labkit.backends import Logits
from labkit.errors import ModelError, NotApplicable, PromptError

CACHE_TYPES = ("f32", "f16", "q8_0", "q4_0")
"""Names of the types in which llama.cpp keeps keys and values."""

_CELLS = 256  # llama.cpp pads a context to a multiple of this


@functools.cache
def _library() -> Any:
    try:
        library: Any = importlib.import_module("llama_cpp")
    except ImportError as problem:
        raise ModelError(
            "the llama.cpp stack needs the extra `llamacpp`; it is not installed. Run `make "
            "llamacpp`, which compiles it from source with a C++ compiler in some minutes."
        ) from problem
    library.llama_log_set(_TAKE_LINE, ctypes.c_void_p(0))
    library.llama_backend_init()
    return library


_LINES: list[str] = []


def _take_line(_level: int, text: bytes, _data: object) -> None:
    """Keep what llama.cpp logs, instead of its writing to standard error."""
    _LINES.append(text.decode(errors="replace"))


# llama.cpp keeps the pointer, so the callback must outlive every call.
_TAKE_LINE = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(_take_line)


class OpenFile:
    """A GGUF file that llama.cpp has opened; freed with its last user."""

    def __init__(self, path: Path) -> None:
        """Open a file on the processor.

        Raises:
            ModelError: If llama.cpp is not installed or cannot read it.
        """
        library = _library()
        _LINES.clear()
        params = library.llama_model_default_params()
        params.n_gpu_layers = 0
        self.handle = library.llama_model_load_from_file(str(path).encode(), params)
        if not self.handle:
            said = " ".join(line.strip() for line in _LINES[-4:])
            raise ModelError(f"llama.cpp could not read {path.name}: {said[:300]}")
        weakref.finalize(self, library.llama_model_free, self.handle)
        self.name = path.name
        self.vocab = library.llama_model_get_vocab(self.handle)
        self.vocabulary = int(library.llama_vocab_n_tokens(self.vocab))
        self.positions = int(library.llama_model_n_ctx_train(self.handle))


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCppBackend:
    """An open GGUF file with the options under which it is run.

    Attributes:
        file: The open file.
        digest: Digest of the model that it holds.
        weights: How the file stores the weights: `float16`, `float32` or `published`.
        flash: Whether attention is computed by the flash kernel.
        batch: Tokens that one pass of the graph takes (`n_ubatch`).
        cache_type: One of `CACHE_TYPES`.
        threads: Threads of the processor.
    """

    file: OpenFile
    digest: str
    weights: str
    flash: bool = False
    batch: int = 512
    cache_type: str = "f16"
    threads: int = 1

    def encode(self, text: str) -> list[int]:
        """See `labkit.backends.Backend.encode`."""
        raw = text.encode()
        room = (ctypes.c_int32 * (len(raw) + 8))()
        count = _library().llama_tokenize(
            self.file.vocab, raw, len(raw), room, len(room), False, False
        )
        if count < 0:
            raise PromptError(f"llama.cpp must encode the text; it needs {-count} tokens.")
        return list(room[:count])

    def decode(self, ids: Sequence[int]) -> str:
        """See `labkit.backends.Backend.decode`."""
        return b"".join(self._piece(token) for token in ids).decode(errors="replace")

    def _piece(self, token: int) -> bytes:
        room = ctypes.create_string_buffer(256)
        count = _library().llama_token_to_piece(self.file.vocab, token, room, 256, 0, True)
        return room.raw[: max(count, 0)]

    def session(self, *, capacity_tokens: int) -> LlamaCppSession:
        """See `labkit.backends.Backend.session`."""
        return LlamaCppSession(backend=self, capacity_tokens=capacity_tokens)

    def next_logits(self, ids: Sequence[int]) -> Logits:
        """See `labkit.backends.Backend.next_logits`."""
        row: Logits = self.session(capacity_tokens=len(ids)).next_logits([ids])[0]
        return row

    def manifest(self) -> dict[str, object]:
        """See `labkit.backends.Backend.manifest`."""
        return {
            "stack": "llama.cpp",
            "versions": {"llama-cpp-python": importlib.metadata.version("llama-cpp-python")},
            "built_for": _library().llama_print_system_info().decode().strip(" |"),
            "model": self.file.name,
            "digest": self.digest,
            "weights": self.weights,
            "flash": self.flash,
            "batch": self.batch,
            "cache_type": self.cache_type,
            "threads": self.threads,
        }


@dataclass(slots=True, kw_only=True, weakref_slot=True)
class LlamaCppSession:
    """Sequences under extension by a `LlamaCppBackend`, in a context of their own."""

    backend: LlamaCppBackend
    capacity_tokens: int
    observed: dict[str, object] = field(default_factory=dict)
    _context: Any = None
    _seen: list[int] = field(default_factory=list)

    def next_logits(self, rows: Sequence[Sequence[int]]) -> Logits:
        """See `labkit.backends.Session.next_logits`."""
        if self._context is None:
            self._open(len(rows))
        return np.stack([self._extend(place, row) for place, row in enumerate(rows)])

    def _open(self, rows: int) -> None:
        library, backend = _library(), self.backend
        _LINES.clear()
        params = library.llama_context_default_params()
        cells = -(-self.capacity_tokens // _CELLS) * _CELLS
        params.n_ctx, params.n_seq_max = cells * rows, rows
        params.n_batch = params.n_ubatch = backend.batch
        params.n_threads = params.n_threads_batch = backend.threads
        params.type_k = params.type_v = getattr(library, f"GGML_TYPE_{backend.cache_type.upper()}")
        params.flash_attn_type = 1 if backend.flash else 0
        params.kv_unified = False
        self._context = library.llama_init_from_model(backend.file.handle, params)
        if not self._context:
            said = " ".join(line.strip() for line in _LINES[-4:])
            raise NotApplicable(f"llama.cpp could not make a context: {said[:300]}")
        # It holds the file, so that no order of collection frees weights before their context.
        weakref.finalize(self, _free_context, self._context, backend.file)
        self._seen = [0] * rows
        self.observed = _read_context(library, self._context, "".join(_LINES)) | {"rows": rows}

    def _extend(self, place: int, ids: Sequence[int]) -> Logits:
        size = self.backend.batch
        for start in range(0, len(ids), size):
            piece = ids[start : start + size]
            logits = self._decode(place, piece, last=start + size >= len(ids))
        return logits

    def _decode(self, place: int, ids: Sequence[int], *, last: bool) -> Logits:
        library = _library()
        batch = library.llama_batch_init(len(ids), 0, 1)
        try:
            batch.n_tokens = len(ids)
            for i, token in enumerate(ids):
                batch.token[i] = token
                batch.pos[i] = self._seen[place] + i
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = place
                batch.logits[i] = last and i == len(ids) - 1
            if code := library.llama_decode(self._context, batch):
                raise ModelError(f"llama.cpp must run the tokens; llama_decode gave {code}.")
        finally:
            library.llama_batch_free(batch)
        self._seen[place] += len(ids)
        if not last:
            return np.empty(0, dtype=np.float32)
        row = library.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(row, shape=(self.backend.file.vocabulary,)).copy()


def _free_context(context: Any, _file: OpenFile) -> None:
    _library().llama_free(context)


def _read_context(library: Any, context: Any, log: str) -> dict[str, object]:
    """Return what a context does, from its getters and from what was logged as it was made."""
    kinds = re.search(r"K \((\w+)\).*V \((\w+)\)", log)
    flash = re.search(r"flash_attn\s*=\s*(\w+)", log)
    return {
        "batch": int(library.llama_n_ubatch(context)),
        "cache_type": list(kinds.groups()) if kinds else None,
        "flash": flash.group(1) if flash else None,
    }
