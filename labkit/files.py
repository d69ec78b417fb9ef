"""The lab on disk: where its clone stands, how a file is replaced, how contents are digested."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from labkit.errors import ResultsError, RunError

_MARKS = ("pyproject.toml", "data", "notebooks")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_IN_THE_WAY = (errno.EEXIST, errno.ENOTDIR)


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
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def digest_files(paths: Iterable[Path], *, root: Path) -> str:
    """Return one SHA-256 over files: their names relative to `root` and their bytes."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
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


def dump_json(value: object, *, what: str) -> str:
    """Return indented JSON that every reader accepts.

    Raises:
        ResultsError: If it holds a NaN or an infinity, which JSON cannot say.
    """
    if place := first_not_finite(value):
        raise ResultsError(
            f"Every number in {what} must be finite; got {place}. "
            "Store null where nothing was measured."
        )
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_atomically(path: Path, text: str) -> None:
    """Replace a file by new text, or leave the old one untouched.

    Raises:
        RunError: If the disk is full or the folder cannot be written.
    """
    content = text.encode()
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
    existing = next(folder for folder in path.resolve().parents if folder.exists())
    return shutil.disk_usage(existing).free
