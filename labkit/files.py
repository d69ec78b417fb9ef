"""The lab on disk: where its clone stands, how a file is replaced, how contents are digested.

Reading a config digests and writes nothing, so what that needs is imported where it is used.
"""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.errors import LabError, ResultsError, RunError

_MARKS = ("pyproject.toml", "data", "notebooks")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_IN_THE_WAY = (errno.EEXIST, errno.ENOTDIR)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
MAX_DEPTH = 100
"""Levels of nesting that are read: far more than we write, far fewer than Python can recurse."""


def find_root(start: Path | None = None) -> Path:
    """Return the root of the lab's clone.

    The clone this package was imported from comes first, so that code and data belong together;
    a package installed elsewhere looks upwards from the working folder.

    Args:
        start: Where to look upwards from instead, first of all.

    Raises:
        RunError: If no folder above holds the lab's files.
    """
    here = Path.cwd()
    starts = [Path(__file__).resolve().parent, here]
    for folder in [start, *starts] if start else starts:
        for candidate in (folder, *folder.parents):
            if all((candidate / mark).exists() for mark in _MARKS):
                return candidate
    raise RunError(
        f"The lab must run inside its clone, a folder with {', '.join(_MARKS)}; "
        f"got working_folder={here}. Change into the clone and call the same command again."
    )


def data_file(*parts: str) -> Path:
    """Return a path under the clone's data folder."""
    return find_root().joinpath("data", *parts)


def shown(path: Path) -> str:
    """Return a path as it is shown and stored: relative to the clone where it lies inside."""
    try:
        return path.resolve().relative_to(find_root()).as_posix()
    except (ValueError, RunError):
        return str(path)


def canonical_json(value: object) -> str:
    """Return one text for equal values: sorted keys, no spaces, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest_of(value: object) -> str:
    """Return the SHA-256 of a JSON value's canonical text."""
    import hashlib

    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    import hashlib

    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def digest_files(paths: Iterable[Path], *, root: Path) -> str:
    """Return one SHA-256 over files: their names relative to `root` and their bytes."""
    import hashlib

    whole = hashlib.sha256()
    for path in sorted(paths):
        content = sha256_of(path)
        whole.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return whole.hexdigest()


def first_not_finite(value: object, path: str = "$") -> str | None:
    """Return where a NaN or an infinity stands in a JSON value, or None."""
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{path} = {value}"
    children: Iterable[tuple[str, object]] = ()
    if isinstance(value, Mapping):
        children = ((f"{path}.{key}", child) for key, child in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        children = ((f"{path}[{index}]", child) for index, child in enumerate(value))
    found = (first_not_finite(child, where) for where, child in children)
    return next((place for place in found if place), None)


class NotStrictJSONError(ValueError):
    """A text that Python's json reads, though it says two things or nothing that JSON can say."""


class RepeatedKeyError(NotStrictJSONError):
    """An object states a key twice.

    Attributes:
        key: The key.
    """

    def __init__(self, key: str) -> None:
        """Keep the key."""
        super().__init__(f"the key {key!r} stands twice")
        self.key = key


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the object of these pairs, for `object_pairs_hook`.

    Raises:
        RepeatedKeyError: If a key stands twice.
    """
    unique = dict(pairs)
    if len(unique) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKeyError(key)
            seen.add(key)
    return unique


def parse_json_strict(text: str) -> Any:
    """Return the one value that a JSON text holds, which can be written again as it was.

    Raises:
        ValueError: If it is no JSON, states a key twice, holds NaN, an infinity or a number beyond
            a float, a lone surrogate, or more than `MAX_DEPTH` levels.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=unique_keys,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            parse_int=_finite_int,
        )
    except RecursionError:
        raise NotStrictJSONError("its values are nested too deeply") from None
    if _is_too_deep(value):
        raise NotStrictJSONError("its values are nested too deeply")
    if _SURROGATE.search(text):
        _refuse_surrogates(value)
    return value


def load_json_strict(
    path: Path, *, what: str, error: type[LabError] = ResultsError, remedy: str = ""
) -> Any:
    """Return what a JSON file holds; `parse_json_strict` says what is refused.

    Args:
        path: The file, in UTF-8.
        what: What the file is, to begin the message with, such as `A record`.
        error: The error to raise.
        remedy: A sentence that says what to do.

    Raises:
        LabError: The given one, if the file cannot be read or is refused; it names the file.
    """
    try:
        return parse_json_strict(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        reason = (isinstance(fault, OSError) and fault.strerror) or fault
        message = f"{what} must be a readable JSON file; got path={shown(path)}: {reason}. {remedy}"
        raise error(message.rstrip()) from fault


def _refuse_constant(name: str) -> float:
    raise NotStrictJSONError(f"{name} is not a JSON number")


def _finite_float(text: str) -> float:
    if math.isfinite(value := float(text)):
        return value
    raise NotStrictJSONError(f"the number {text:.20} is too large")


def _finite_int(text: str) -> int:
    _finite_float(text)  # whoever divides by it makes a float of it
    return int(text)


def _is_too_deep(value: object) -> bool:
    holders = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        inside = itertools.chain.from_iterable(
            holder.values() if isinstance(holder, dict) else holder for holder in holders
        )
        holders = [child for child in inside if isinstance(child, dict | list)]
    return bool(holders)


def _refuse_surrogates(value: object) -> None:
    try:
        canonical_json(value).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise NotStrictJSONError(f"{half} is half a character") from error


def dump_json(value: object, *, what: str) -> str:
    """Return indented JSON that every reader accepts.

    Raises:
        ResultsError: If it holds a NaN or an infinity, which JSON cannot say.
    """
    try:
        return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        # Looking for the place takes longer than writing, so only where there is one.
        raise ResultsError(
            f"Every number in {what} must be finite; got {first_not_finite(value)}. "
            "Store null where nothing was measured."
        ) from error


def write_atomically(path: Path, text: str | bytes) -> None:
    """Replace a file by new text or bytes, or leave the old one untouched.

    Raises:
        RunError: If the disk is full or the folder cannot be written.
    """
    import tempfile

    content = text.encode() if isinstance(text, str) else text
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise disk_error(error, path=path, needed_bytes=len(content)) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def disk_error(error: OSError, *, path: Path, needed_bytes: int) -> RunError:
    """Return the error that says which file could not be written, and why."""
    if error.errno in _NO_ROOM:
        return RunError(
            f"The disk must have room for the file; got path={shown(path)}, "
            f"needed_bytes={needed_bytes}, free_bytes={_free_bytes(path)}. "
            "Free some space and call the same command again; the file before it is untouched."
        )
    if error.errno in _IN_THE_WAY:
        return RunError(
            f"The file must stand in a folder, and a file is in its way; got path={shown(path)}, "
            f"in the way={shown(_file_above(path))}. Move that file, or name another folder."
        )
    return RunError(
        f"The file must be writable; got path={shown(path)}, error={error.strerror}. "
        "Check the folder's owner and mode, then call the same command again."
    )


def _file_above(path: Path) -> Path:
    """Return the file that stands where a folder of the path should."""
    return next((folder for folder in path.parents if folder.is_file()), path)


def _free_bytes(path: Path) -> int:
    """Return the free space of the nearest folder that exists."""
    import shutil

    existing = next(folder for folder in path.resolve().parents if folder.exists())
    return shutil.disk_usage(existing).free
