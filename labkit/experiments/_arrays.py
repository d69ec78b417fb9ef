"""Arrays of logits on disk, written and read a step at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from labkit.backends import Logits
from labkit.errors import RunError
from labkit.files import disk_error


class Rows:
    """Writes an array of logits a row at a time, and moves it into place whole."""

    def __init__(self, path: Path, *, steps: int) -> None:
        self._path = path
        self._part = path.with_suffix(".part")
        self._steps = steps
        self._array: Any = None

    def __enter__(self) -> Rows:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self

    def write(self, step: int, logits: Logits) -> None:
        """Store one step's logits."""
        needed = self._steps * logits.nbytes
        try:
            if self._array is None:
                self._array = self._part.open("wb")
                shape = (self._steps, len(logits))
                header = {"descr": logits.dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_2_0(self._array, header)
            self._array.write(logits.tobytes())
        except OSError as error:
            raise disk_error(error, path=self._path, needed_bytes=needed) from error

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._array is None:
            return
        try:
            self._array.close()
        except OSError as problem:
            self._part.unlink(missing_ok=True)
            if error is None:
                raise disk_error(problem, path=self._path, needed_bytes=0) from problem
        if error is None:
            self._part.replace(self._path)
        else:
            self._part.unlink(missing_ok=True)


def is_whole(path: Path) -> bool:
    """Say whether an array is there and as long as its header says."""
    try:
        np.load(path, mmap_mode="r")
    except (OSError, ValueError):
        return False
    return True


def read_rows(path: Path) -> Logits:
    """Map a stored array, shape `(steps, vocab)`.

    Raises:
        RunError: If it is not there.
    """
    if not path.exists():
        raise RunError(f"the array {path.name} must be there; run the same command again.")
    rows: Logits = np.load(path, mmap_mode="r")
    return rows
