"""Fill a folder so that what has not changed stays untouched: a build then knows what is new."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from labkit.files import disk_error


def fill_folder(folder: Path, contents: Mapping[str, bytes], *, keep: str = "") -> None:
    """Let a folder hold these files and no others; a file that is as it should be is not written.

    Args:
        folder: The folder; it is made if it is not there.
        contents: The bytes of each file, by its path below the folder, with `/`.
        keep: The name of a folder in it that is left as it is.

    Raises:
        RunError: If a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for entry in folder.iterdir():
        if entry.name != keep:
            _drop(entry, {folder / name for name in contents})
    for name, content in contents.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_file() or path.read_bytes() != content:
                path.write_bytes(content)
        except OSError as error:
            raise disk_error(error, path=path, needed_bytes=len(content)) from error


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
