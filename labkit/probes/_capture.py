"""Record everything that a call says: exception, warnings, log records, standard error."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

T = TypeVar("T")

TEXT_LIMIT_CHARS = 500  # longest text kept of any message
MESSAGES_LIMIT = 20  # most messages kept of one call

# A path below at least one folder; the first lookbehind keeps the path of a URL.
_PATH = re.compile(r"(?<![\w:/.<])(?:/[\w.+\-@]+)+/([\w.+\-@]*)")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_TEMPORARY = re.compile(r"\btmp[a-z0-9_]{8}\b")  # a folder's random name differs at every call


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing that was said: by whom (a logger, a warning class), and what."""

    channel: str  # "warning" | "log" | "stderr"
    speaker: str
    text: str

    def to_json(self) -> dict[str, str]:
        """Return the message as a flat JSON object."""
        return {"channel": self.channel, "speaker": self.speaker, "text": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Generic[T]):
    """What one call returned or raised, and what it said meanwhile."""

    value: T | None = None
    exception_type: str | None = None
    exception_text: str = ""
    messages: tuple[Message, ...] = field(default=())

    @property
    def raised(self) -> bool:
        """Whether the call ended in an exception."""
        return self.exception_type is not None

    @property
    def said(self) -> str:
        """Everything the call said, in one text."""
        texts = [f"{self.exception_type}: {self.exception_text}"] if self.raised else []
        return "\n".join([*texts, *(message.text for message in self.messages)])

    def beyond(self, control: Attempt[Any]) -> Attempt[T]:
        """Return the attempt without the messages that a control call said as well."""
        background = set(control.messages)
        return replace(self, messages=tuple(m for m in self.messages if m not in background))

    def to_json(self) -> dict[str, Any]:
        """Return what was said as JSON; the value stays behind."""
        raised = {"type": self.exception_type, "text": self.exception_text}
        return {
            "exception": raised if self.raised else None,
            "messages": [message.to_json() for message in self.messages],
        }


def attempt(call: Callable[[], T]) -> Attempt[T]:
    """Run one call with every channel recorded; whatever it raises becomes evidence.

    Only the asked call belongs in here. Measuring code stays outside, so that its own
    failure can never be read as a refusal.
    """
    with record_messages() as said:
        try:
            value, error = call(), None
        # The stack may refuse by any exception, and which one it chose is the evidence.
        except Exception as caught:
            value, error = None, caught
    if error is None:
        return Attempt(value=value, messages=tuple(said))
    return Attempt(
        exception_type=type(error).__name__,
        exception_text=clean_text(str(error)),
        messages=tuple(said),
    )


def clean_text(text: str) -> str:
    """Take paths, random names and addresses out of a text and trim it to the kept length."""
    plain = _TEMPORARY.sub("tmp…", _PATH.sub(r"<path>/\1", text.strip()))
    plain = _ADDRESS.sub("0x…", plain)
    if len(plain) <= TEXT_LIMIT_CHARS:
        return plain
    return f"{plain[:TEXT_LIMIT_CHARS]}… ({len(plain) - TEXT_LIMIT_CHARS} more characters)"


@contextlib.contextmanager
def record_messages() -> Iterator[list[Message]]:
    """Collect warnings, log records and standard error; the list is filled on leaving.

    What libraries say only once a process is made sayable again first, so that a repeated
    call gives the same evidence.
    """
    said: list[Message] = []
    records: list[logging.LogRecord] = []
    _forget_said_once()
    with (
        warnings.catch_warnings(record=True) as caught,
        _record_logs(records),
        _warn_always(),
        _quiet_progress_bars(),
        _record_stderr() as written,
    ):
        warnings.simplefilter("always")
        yield said
    said += [
        Message(channel="warning", speaker=w.category.__name__, text=clean_text(str(w.message)))
        for w in caught
    ]
    said += [
        Message(channel="log", speaker=r.name, text=clean_text(r.getMessage())) for r in records
    ]
    if text := clean_text("".join(written)):
        said.append(Message(channel="stderr", speaker="standard error", text=text))
    said[:] = list(dict.fromkeys(said))[:MESSAGES_LIMIT]


class _Collector(logging.Handler):
    """A log handler that keeps records at WARNING and above."""

    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__(level=logging.WARNING)
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        if record not in self._records:
            self._records.append(record)


@contextlib.contextmanager
def _record_logs(records: list[logging.LogRecord]) -> Iterator[None]:
    """Listen at the root and at every logger that does not pass its records on.

    Stream handlers are taken off meanwhile: their text would be counted again as stderr.
    """
    collector = _Collector(records)
    named = [x for x in logging.root.manager.loggerDict.values() if isinstance(x, logging.Logger)]
    ends = [logging.root, *(x for x in named if x.handlers or not x.propagate)]
    before = [(logger, list(logger.handlers), logger.level) for logger in ends]
    disabled = logging.root.manager.disable
    logging.disable(logging.NOTSET)
    try:
        for logger in ends:
            kept = [h for h in logger.handlers if not isinstance(h, logging.StreamHandler)]
            logger.handlers = [*kept, collector]
            if logger.level > logging.WARNING:  # a quiet environment must not change the evidence
                logger.setLevel(logging.WARNING)
        yield
    finally:
        for logger, handlers, level in before:
            logger.handlers = handlers
            logger.setLevel(level)
        logging.disable(disabled)


@contextlib.contextmanager
def _record_stderr() -> Iterator[list[str]]:
    """Collect what is written to `sys.stderr` and, beneath Python, to descriptor 2."""
    written: list[str] = []
    with contextlib.suppress(OSError, ValueError):  # a closed stderr has nothing to flush
        sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            with contextlib.redirect_stderr(io.StringIO()) as python_level:
                yield written
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        file.seek(0)
        written += [python_level.getvalue(), file.read().decode(errors="replace")]


def _forget_said_once() -> None:
    """Empty the caches by which transformers says a thing only once a process."""
    library_logging = sys.modules.get("transformers.utils.logging")
    for name in ("warning_once", "info_once"):
        clear = getattr(getattr(library_logging, name, None), "cache_clear", None)
        if clear is not None:
            clear()


@contextlib.contextmanager
def _warn_always() -> Iterator[None]:
    """Let torch's C++ side repeat the warnings it would otherwise say once."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


@contextlib.contextmanager
def _quiet_progress_bars() -> Iterator[None]:
    """Switch transformers' progress bars off: they write to stderr and say nothing."""
    library_logging = sys.modules.get("transformers.utils.logging")
    if library_logging is None or not library_logging.is_progress_bar_enabled():
        yield
        return
    library_logging.disable_progress_bar()
    try:
        yield
    finally:
        library_logging.enable_progress_bar()
