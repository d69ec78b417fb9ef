"""The journal of a run: what was measured so far, one line a unit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labkit.errors import ResultsError
from labkit.files import canonical_json, digest_of, disk_error, dump_json, shown


class Journal:
    """What a run has measured so far, one line a unit, each with its own checksum.

    A unit is found again only under the digest of what it was measured from. Lines that are
    torn or changed are skipped and reported in `problems`; their units run again.
    """

    def __init__(self, path: Path) -> None:
        """Read the lines that are whole.

        Args:
            path: The journal's file; it need not exist.
        """
        self.path = path
        self._values: dict[tuple[str, str], object] = {}
        self.problems: list[str] = []
        content = _read(path)
        self._ends_clean = content.endswith(b"\n") or not content
        for number, line in enumerate(content.split(b"\n"), start=1):
            if line:
                self._read_line(line, number=number)

    def __len__(self) -> int:
        return len(self._values)

    def has(self, unit: str, *, digest: str) -> bool:
        """Return whether a unit was measured from inputs of this digest."""
        return (unit, digest) in self._values

    def value(self, unit: str, *, digest: str) -> Any:
        """Return what was measured; KeyError if it was not."""
        return self._values[unit, digest]

    def once(self, unit: str, *, digest: str, measure: Callable[[], object]) -> Any:
        """Return a unit's value, and measure it only if it is not here."""
        if not self.has(unit, digest=digest):
            self.append(unit, digest=digest, value=measure())
        return self.value(unit, digest=digest)

    def latest(self) -> dict[str, Any]:
        """Return each unit's newest value, whatever it was measured from."""
        return {unit: value for (unit, _), value in self._values.items()}

    def append(self, unit: str, *, digest: str, value: object) -> None:
        """Add a unit, on disk before this returns.

        Raises:
            ResultsError: If the value holds a NaN.
            RunError: If the disk is full; what was there stays readable.
        """
        entry = {"unit": unit, "digest": digest, "value": value}
        dump_json(value, what=f"journal unit {unit!r}")
        line = canonical_json({**entry, "check": _check_of(entry)}).encode() + b"\n"
        # A line torn by a kill has no end; ours must not be glued to it.
        content = line if self._ends_clean else b"\n" + line
        self._ends_clean = False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                _write_all(file.fileno(), content)
                os.fsync(file.fileno())
        except OSError as error:
            raise disk_error(error, path=self.path, needed_bytes=len(content)) from error
        self._ends_clean = True
        self._values[unit, digest] = json.loads(line)["value"]

    def _read_line(self, line: bytes, *, number: int) -> None:
        try:
            stored = json.loads(line)
            check = stored.pop("check")
            unit, digest, value = stored["unit"], stored["digest"], stored["value"]
            expected = _check_of(stored)
        except (ValueError, KeyError, TypeError, AttributeError):
            self._skip(number, "torn or not JSON")
            return
        if check != expected:
            self._skip(number, f"its checksum does not fit its unit {unit!r}")
            return
        self._values[unit, digest] = value

    def _skip(self, number: int, why: str) -> None:
        self.problems.append(f"{self.path.name} line {number}: {why}; its unit runs again.")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise ResultsError(
            f"A journal must be a readable file; got path={shown(path)}, error={error.strerror}. "
            "Move it away and call the same command again."
        ) from error


def _check_of(entry: Mapping[str, object]) -> str:
    return digest_of(entry)[:16]


def _write_all(handle: int, content: bytes) -> None:
    """Write every byte: a nearly full disk takes only some of them at first."""
    while content:
        content = content[os.write(handle, content) :]
