"""Open a file with llama-cpp-python and record what both layers say, line by line.

llama.cpp logs a few hundred lines a file through a callback, and the Python layer prints to
standard error. Only lines at WARNING and above count of the first; of the second all but the
listing of the file's metadata.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from labkit.probes._capture import Attempt, Message, attempt, clean_text

T = TypeVar("T")

TEXT = "the cat sat on the mat and"
# As ggml.h numbers them; the Python layer's own table of levels is one off.
_WARNING, _ERROR, _CONTINUED = 3, 4, 5
_LISTINGS = ("Model metadata:", "Available chat formats from metadata:")
_THREADS = 1


def llama_cpp() -> Any:
    """Return the library, imported when first asked for."""
    return importlib.import_module("llama_cpp")


def open_file(path: Path, **options: Any) -> Any:
    """Return an open `Llama` on one thread, with the API's own defaults otherwise."""
    return llama_cpp().Llama(str(path), n_threads=_THREADS, n_threads_batch=_THREADS, **options)


def ask(call: Callable[[], T], *, log: list[str] | None = None) -> Attempt[T]:
    """Run one call as `labkit.probes.attempt` does, and hear llama.cpp's own log as well.

    Args:
        call: What is asked.
        log: Receives every line of the log, of any level.
    """
    printed, logged = io.StringIO(), list[tuple[int, str]]()

    def recorded() -> T:
        with _log_into(logged), contextlib.redirect_stderr(printed):
            return call()

    done = attempt(recorded)
    if log is not None:
        log += [text for _, text in logged]
    messages = [
        *done.messages,
        *(
            _message("log", "llama.cpp", text)
            for level, text in logged
            if level in (_WARNING, _ERROR)
        ),
        *(_message("stderr", "llama-cpp-python", line) for line in _told(printed.getvalue())),
    ]
    return replace(done, messages=tuple(dict.fromkeys(messages)))


def _message(channel: str, speaker: str, text: str) -> Message:
    return Message(channel=channel, speaker=speaker, text=clean_text(text))


def _told(printed: str) -> list[str]:
    lines = (line.strip() for line in printed.splitlines())
    return [line for line in lines if line and not line.startswith(_LISTINGS)]


@contextlib.contextmanager
def _log_into(logged: list[tuple[int, str]]) -> Iterator[None]:
    """Collect llama.cpp's log as lines with their level, and give the library its own log back."""
    library = llama_cpp()

    def take(level: int, text: bytes, _data: object) -> None:
        words = text.decode(errors="replace")
        if level == _CONTINUED and logged:
            logged[-1] = (logged[-1][0], logged[-1][1] + words)
        else:
            logged.append((level, words))

    callback = library.llama_log_callback(take)
    library.llama_log_set(callback, ctypes.c_void_p(0))
    try:
        yield
    finally:
        own = importlib.import_module("llama_cpp._logger").llama_log_callback
        library.llama_log_set(own, ctypes.c_void_p(0))


def complete(path: Path, *, opened: dict[str, Any] | None = None, **options: Any) -> list[int]:
    """Return the new tokens of a completion by a file opened for it alone."""
    llama = open_file(path, **{"n_ctx": 256, **(opened or {})})
    prompt = llama.tokenize(TEXT.encode())
    answer = llama.create_completion(prompt, **{"max_tokens": 8, "temperature": 0.0, **options})
    # What was read and written stands in the context, but for the last token.
    del answer
    return [int(token) for token in llama.input_ids[len(prompt) : llama.n_tokens]]


def last_logits(path: Path, *, tokens: int, first: int | None = None, **options: Any) -> Any:
    """Return the last token's logits, shape `(vocabulary,)`, of a fixed prompt.

    Args:
        path: The file.
        tokens: Length of the prompt.
        first: Another first token.
        options: For `Llama`.
    """
    llama = open_file(path, logits_all=True, **{"n_ctx": 512, **options})
    return read_logits(llama, tokens=tokens, first=first)


def read_logits(llama: Any, *, tokens: int, first: int | None = None) -> Any:
    """Return the last token's logits of a fixed prompt, of an open file that keeps them."""
    ids = [3 + (7 * i + i // 5) % 200 for i in range(tokens)]
    if first is not None:
        ids[0] = first
    llama.reset()
    llama.eval(ids)
    return llama.scores[tokens - 1].copy()


def difference(left: Any, right: Any) -> float:
    """Return the largest absolute difference of two rows of logits."""
    return float(abs(left - right).max())
