"""One environment a release: the lab's own packages, with that release of transformers in front.

An environment is a venv without pip whose path goes on into the lab's packages, so that torch
and the rest are not installed again; the lab's pip adds only what the release needs otherwise.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from labkit.errors import ReleaseError
from labkit.files import disk_error
from labkit.models import cache_root

LIBRARY = "transformers"
SPACE_BYTES = 200_000_000  # what one release and its own helpers take, at most
LEFTOVER_S = 3600.0  # no install lasts this long

_RELEASE = re.compile(r"\d+\.\d+\.\d+(?:\.post\d+)?")
_SHARED = ("huggingface-hub", "numpy", "tokenizers", "torch", "transformers")
_NO_INDEX = ("Retrying", "Connection", "Network is unreachable", "(from versions: none)")

Install = Callable[[str, Path], None]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEnvironment:
    """A Python that imports one release of the library.

    Attributes:
        release: The release, as its package index spells it.
        folder: Where it lies in the cache; None for the one that the lab itself runs with.
    """

    release: str
    folder: Path | None

    @property
    def python(self) -> Path:
        """Return the interpreter."""
        return self.folder / "bin" / "python" if self.folder else Path(sys.executable)

    @property
    def remedy(self) -> str:
        """Return how to have it anew, as the end of a message."""
        if self.folder is None:
            return "Install the lab again with `make setup`."
        return (
            f"Remove {self.folder.name} from the cache's folder `releases` and call the same "
            "command again."
        )


def check_release(release: str) -> str:
    """Return a release that is spelt as one.

    Raises:
        ReleaseError: If it is not three numbers.
    """
    if _RELEASE.fullmatch(release):
        return release
    raise ReleaseError(
        f"A release must be three numbers with dots; got release={release!r}. "
        f"Write it as {LIBRARY} names its own, such as 5.17.0."
    )


def release_order(release: str) -> tuple[int, ...]:
    """Return what orders releases from old to new."""
    return tuple(int(number) for number in re.findall(r"\d+", release))


def installed_release() -> str:
    """Return the release that the lab itself runs with."""
    return metadata.version(LIBRARY)


def own_environment() -> ReleaseEnvironment:
    """Return the one that the lab itself runs with."""
    return ReleaseEnvironment(release=installed_release(), folder=None)


def make_environment(
    release: str, *, install: Install | None = None, say: Say = lambda _: None
) -> ReleaseEnvironment:
    """Return a release's environment, made if it is not there yet.

    It is made beside its place and moved there whole: a failed or killed installation leaves
    nothing that a later call would take for an environment.

    Args:
        release: The release.
        install: Puts the release into an environment, given its name and the interpreter.
        say: Receives a line before an installation.

    Raises:
        ReleaseError: If there is no such release, no network, or a part that has no wheel here.
        RunError: If the cache folder cannot be written.
    """
    check_release(release)
    folder = cache_root() / "releases" / f"{LIBRARY}-{release}-{_lab_mark()}"
    if not folder.exists():
        say(f"installing {LIBRARY} {release} (once)")
        try:
            _make(release, folder=folder, install=install or install_with_pip)
        except OSError as error:
            raise disk_error(error, path=folder, needed_bytes=SPACE_BYTES) from error
    return ReleaseEnvironment(release=release, folder=folder)


def _make(release: str, *, folder: Path, install: Install) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder.parent)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as scratch:
        made = Path(scratch) / "environment"
        _make_venv(made)
        install(release, made / "bin" / "python")
        if not folder.exists():  # another process may have been quicker
            made.replace(folder)


def _sweep(parent: Path) -> None:
    """Remove what a killed process left behind."""
    for leftover in parent.glob(".making-*"):
        if time.time() - leftover.stat().st_mtime > LEFTOVER_S:
            shutil.rmtree(leftover, ignore_errors=True)


def _make_venv(folder: Path) -> None:
    """Make an empty venv that finds the lab's packages behind its own."""
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], release="")
    base = {"base": str(folder), "platbase": str(folder)}
    own = Path(sysconfig.get_path("purelib", scheme="venv", vars=base))
    (own / "lab.pth").write_text("\n".join(_lab_packages()) + "\n", encoding="utf-8")


def _lab_packages() -> list[str]:
    """Return the folders that hold the lab's packages."""
    found = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    return list(dict.fromkeys(found))


def _lab_mark() -> str:
    """Return a mark of what an environment borrows: it is made anew where that has changed."""
    borrowed = [sys.version.split()[0], *_lab_packages()]
    borrowed += [f"{name} {metadata.version(name)}" for name in _SHARED]
    return hashlib.sha256("\n".join(borrowed).encode()).hexdigest()[:8]


def install_with_pip(release: str, python: Path) -> None:
    """Install a release by the lab's pip; packages that suffice already are not installed again.

    Raises:
        ReleaseError: If pip fails, with its reason in our words.
    """
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-input"]
    command += ["--only-binary", ":all:", "--retries", "2", "--quiet", f"{LIBRARY}=={release}"]
    _run(command, release=release)


def _run(command: Sequence[str], *, release: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(explain_pip(done.stderr or done.stdout, release=release))


def explain_pip(said: str, *, release: str) -> str:
    """Say why an installation failed and what to do, from what pip said."""
    wanted = f"{LIBRARY}=={release}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if "no space left" in said.lower():
        return f"The disk must have room for {wanted}; it is full. Free some space and try again."
    if any(sign in said for sign in _NO_INDEX):
        return (
            f"Installing a release needs a package index; got none for {wanted}. "
            "Nothing was kept. Check the network and call the same command again; releases "
            "that were installed before need none."
        )
    if f"requirement {wanted} " in said:
        known = re.findall(
            r"\d+\.\d+[\w.]*", said.partition("(from versions:")[2].partition(")")[0]
        )
        near = difflib.get_close_matches(release, known, n=3, cutoff=0.4)
        hint = f"Near ones: {', '.join(near)}." if near else "Check the number."
        return f"A release must be one that was published; got release={release!r}. {hint}"
    reason = next((line for line in reversed(lines) if "ERROR" in line), "no message")
    return (
        f"{wanted} must install into a Python {sys.version_info.major}.{sys.version_info.minor} "
        f"environment from wheels alone; pip said {reason[:200]!r}. Nothing was kept. "
        "Leave this release out, or use another Python."
    )
