"""How much of a site has to be made anew: the pages that were edited, or all of it.

Sphinx sees by itself that a page was edited. What else a page is made from it does not know: the
run, the stored files, the package that draws the figures, the settings. So a site that was built
without a warning keeps a digest of all that, and one with another digest is built from nothing.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from labkit.files import digest_files, find_root, write_atomically
from labkit.pyodide import find_archive
from labkit.staged import STAGE

MARK = ".labkit-built"
_OF_THE_CLONE = (
    "labkit/**/*",
    "data/**/*",
    "notebooks/*.ipynb",
    "results/published-*/results.json",
)


def digest_behind(top: Path, *, clone: Path | None = None) -> str:
    """Return a digest of all that the pages of a book are made from, but for their own text.

    Args:
        top: The book's source.
        clone: The lab's clone, whose package and data make the figures.
    """
    lab = clone or find_root()
    parts = [
        digest_files(_files_of_book(top), root=top),
        digest_files(_files_of_clone(lab), root=lab),
        sys.version,
        *_installed(),
        str(find_archive()),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def is_current(site: Path, digest: str) -> bool:
    """Say whether a site was built without a warning from what this digest is of."""
    mark = site / MARK
    return mark.is_file() and mark.read_text(encoding="utf-8") == digest


def unmark(site: Path) -> None:
    """Let a site count as unfinished."""
    (site / MARK).unlink(missing_ok=True)


def mark_built(site: Path, digest: str) -> None:
    """Let a site count as built from what this digest is of."""
    write_atomically(site / MARK, digest)


def age_pages(site: Path) -> None:
    """Let each page count as older than its source, so that it is written again.

    Its text may be as it was, and a title that it lists or a place that it leads to may not.
    """
    for page in (site / "book").rglob("*.html"):
        os.utime(page, (0, 0))


def _files_of_book(top: Path) -> Iterator[Path]:
    yield from (path for name in ("_config.yml", "_toc.yml") if (path := top / name).is_file())
    for path in (top / "book").rglob("*"):
        by_hand = path.suffix == ".md" and top / STAGE not in path.parents
        if path.is_file() and not by_hand:
            yield path


def _files_of_clone(clone: Path) -> Iterator[Path]:
    yield from (path for path in [clone / "pyproject.toml"] if path.is_file())
    for pattern in _OF_THE_CLONE:
        for path in clone.glob(pattern):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def _installed() -> list[str]:
    """Return what is installed, each with its version, as pip names the folders."""
    folder = Path(sysconfig.get_path("purelib"))
    return sorted(path.name for path in folder.glob("*.dist-info"))
