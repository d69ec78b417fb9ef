"""The run that a book shows, as a build finds it: what is there, what it lacks, how to get it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from labkit import record
from labkit.files import dump_json, find_root
from labkit.results import RESULTS_NAME, empty_results, read_results

STAGE = "book/run"
"""Where a build finds the run that it shows, under the book's source."""
SHOWN_NAME = "shown.json"
ABOUT = f"{STAGE}/about_this_run"
STORED = f"{STAGE}/stored_measurements"
_GLUED = "scrapbook"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Which run a book shows, and what of a whole chapter it lacks.

    Attributes:
        run: The run's folder, relative to the clone.
        lacks: What is missing or of another version, a phrase each.
        remedy: The command that makes it.
    """

    run: str
    lacks: tuple[str, ...]
    remedy: str

    def note(self, what: str) -> str:
        """Return the sentence that says what is not there, and how to get it."""
        return f"{what} Call `{self.remedy}` and build the book again."

    def summary(self) -> str:
        """Return the sentence that lists everything that is not there."""
        return self.note(f"{self.run} is not a whole run: {'; '.join(self.lacks)}.")


NOTHING_SHOWN = Shown(run="no run", lacks=(), remedy="labkit chapter --profile cpu")


def shown_text(shown: Shown) -> str:
    """Return the text of the file that says which run a stage is of."""
    return dump_json(asdict(shown), what=SHOWN_NAME)


def read_shown(stage: Path) -> Shown:
    """Return which run a stage is of; one that nobody filled is of no run."""
    path = stage / SHOWN_NAME
    if not path.is_file():
        return NOTHING_SHOWN
    stored = json.loads(path.read_text(encoding="utf-8"))
    return Shown(run=stored["run"], lacks=tuple(stored["lacks"]), remedy=stored["remedy"])


def staged_results(stage: Path) -> dict[str, Any]:
    """Return the results in a stage, empty where the run has none that can be read."""
    return read_results(stage) if (stage / RESULTS_NAME).is_file() else empty_results()


def staged_record(stage: Path) -> record.RunRecord | None:
    """Return the record in a stage, if the run has one that can be read."""
    has_one = (stage / record.RECORD_NAME).is_file()
    return record.read_record(stage) if has_one else None


def admonition(note: str) -> str:
    """Return a note on what is missing, as MyST."""
    return f":::{{admonition}} Not in this run\n:class: warning labkit-lacks\n{note}\n:::\n"


def numbers_in(notebook: Path) -> frozenset[str]:
    """Return the keys of the numbers that a notebook has stored for the prose; none if it lacks."""
    if not notebook.is_file():
        return frozenset()
    return _numbers_in(notebook, notebook.stat().st_mtime_ns)


@cache
def _numbers_in(notebook: Path, changed_ns: int) -> frozenset[str]:
    cells = json.loads(notebook.read_text(encoding="utf-8")).get("cells", [])
    outputs = (output for cell in cells for output in cell.get("outputs", ()))
    stored: list[Mapping[str, Any]] = [output.get("metadata", {}) for output in outputs]
    return frozenset(meta[_GLUED]["name"] for meta in stored if _GLUED in meta)


def is_promised(notebook: str, key: str) -> bool:
    """Say whether the lab's own copy of a notebook stores a number, so that a new run has it.

    Args:
        notebook: The notebook's file name.
        key: The number's key.
    """
    return key in numbers_in(find_root() / "notebooks" / notebook)
