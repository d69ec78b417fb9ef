"""Python for the book's playground: Pyodide's archive, and an archive of the rules to run in it.

The archive is on npm alone, so npm downloads it: once, into the cache folder, checked by its
digest. Where it cannot be had the book builds without, and its page says how to get it.
"""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

import labkit
from labkit.errors import RunError
from labkit.files import shown
from labkit.models.catalogue import cache_root

VERSION = "314.0.7"
SHA512 = "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
"""The archive's digest as npm writes it, in base64."""
ARCHIVE = f"pyodide-{VERSION}.tgz"
RUNTIME_FILES = (
    "package.json",  # it names the licence and where the sources are
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "pyodide-lock.json",
    "python_stdlib.zip",
)
ROOMS = (
    "__init__.py",
    "admission.py",
    "config_reading",
    "errors.py",
    "files.py",
    "playground.py",
    "rules",
    "spec.py",
)
"""What the playground imports, in the package; nothing outside the standard library."""
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_PATIENCE_S = 300
REMEDY = (
    "Install Node.js, which brings npm, and build the book again while the network is there; or "
    f"put {ARCHIVE} into the folder pyodide of labkit's cache."
)


def archive_place() -> Path:
    """Return where the archive is, or will be, kept."""
    return cache_root() / "pyodide" / ARCHIVE


def find_archive() -> Path | None:
    """Return the archive in the cache, or None where there is none or it is another file."""
    place = archive_place()
    return place if place.is_file() and _digest_of(place) == SHA512 else None


def fetch_archive() -> Path:
    """Return the archive, downloaded with npm if need be.

    Raises:
        RunError: If npm is missing, cannot reach its registry or brings another file, or the
            cache cannot be written.
    """
    if found := find_archive():
        return found
    place = archive_place()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
            return _packed(Path(scratch)).replace(place)
    except OSError as error:
        raise RunError(
            f"{shown(place)} must be writable; got: {error.strerror or error}."
        ) from error


def _packed(scratch: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise RunError(f"Pyodide {VERSION} must be fetched with npm, which is not here. {REMEDY}")
    command = [npm, "pack", f"pyodide@{VERSION}", "--silent", "--fetch-retries=1"]
    try:
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
        said = done.stderr.strip().splitlines()
    except subprocess.TimeoutExpired:
        said = [f"no answer within {_PATIENCE_S} s"]
    archive = scratch / ARCHIVE
    if not archive.is_file():
        why = said[0][:200] if said else "no message"
        raise RunError(f"npm must bring {ARCHIVE}; it did not: {why}. {REMEDY}")
    if (digest := _digest_of(archive)) != SHA512:
        raise RunError(
            f"{ARCHIVE} must have the SHA-512 {SHA512}; npm brought one with {digest}. "
            "Nothing was kept. Check the registry that npm uses."
        )
    return archive


def _digest_of(path: Path) -> str:
    with path.open("rb") as handle:
        return base64.b64encode(hashlib.file_digest(handle, "sha512").digest()).decode()


def runtime_bytes(archive: Path) -> int:
    """Return the size of what a page needs of Pyodide."""
    with tarfile.open(archive) as packed:
        return sum(packed.getmember(f"package/{name}").size for name in RUNTIME_FILES)


def write_runtime(archive: Path, folder: Path) -> None:
    """Unpack what a page needs of Pyodide into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as packed:
        for name in RUNTIME_FILES:
            source = packed.extractfile(f"package/{name}")
            if source is not None:  # the digest says that it is there
                (folder / name).write_bytes(source.read())


def pack_rules() -> bytes:
    """Return an archive of the rooms that decide, the same bytes for the same sources."""
    package = Path(labkit.__file__).parent
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in _sources(package):
            entry = zipfile.ZipInfo(f"labkit/{path.relative_to(package).as_posix()}", _LONG_AGO)
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _sources(package: Path) -> list[Path]:
    rooms = (package / name for name in ROOMS)
    return sorted(
        file for room in rooms for file in ([room] if room.is_file() else room.rglob("*.py"))
    )
