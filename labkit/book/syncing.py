"""Fill a folder so that what has not changed stays untouched: a build then knows what is new."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from labkit.files import disk_error, write_atomically


def fill_folder(folder: Path, contents: Mapping[str, bytes], *, keep: str = "") -> None:
    """Let a folder hold these files and no others; a file that is as it should be is not written.

    Args:
        folder: The folder; it is made if it is not there.
        contents: The bytes of each file, by its path below the folder, with `/`.
        keep: The name of a folder in it that is left as it is.

    Raises:
        RunError: If a file cannot be written or removed; each file is the old one or the new one.
    """
    wanted = {folder / name for name in contents}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for entry in folder.iterdir():
            if entry.name != keep:
                _drop(entry, wanted)
    except OSError as error:
        raise disk_error(error, path=folder, needed_bytes=0) from error
    for name, content in contents.items():
        if not _holds(folder / name, content):
            write_atomically(folder / name, content)


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.is_file() and path.read_bytes() == content
    except OSError:
        return False  # what cannot be read is written anew


def _drop(entry: Path, wanted: set[Path]) -> None:
    """Remove a file that is not wanted, and of a folder what is not wanted in it."""
    if entry.is_symlink() or not entry.is_dir():
        if entry not in wanted:
            entry.unlink()
        return
    if not any(entry in path.parents for path in wanted):
        shutil.rmtree(entry)
        return
    for inner in entry.iterdir():
        _drop(inner, wanted)
