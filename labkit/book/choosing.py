"""Which run a book shows, and what of a whole chapter a run lacks."""

from __future__ import annotations

import sys
from pathlib import Path

from labkit import record
from labkit.errors import ResultsError, RunError
from labkit.files import find_root, shown
from labkit.results import NOTEBOOKS, RESULTS_NAME, SECTIONS, read_results, resolve_run_dir

PUBLISHED = "results/published-cpu"


def choose_run(run: str | Path | None = None, *, root: Path | None = None) -> Path:
    """Return the run that the book shows: the one named, your last finished, the published.

    Raises:
        RunError: If the one named is not there.
    """
    if run:
        named = resolve_run_dir(run)
        if not named.exists():
            raise RunError(
                f"A run that is named must be there; got run={shown(named)}. "
                "Name a folder under results, or leave --run out for your last finished run."
            )
        return named
    top = root or find_root()
    return last_own_run(root=top) or top / PUBLISHED


def last_own_run(*, root: Path | None = None) -> Path | None:
    """Return the reader's own chapter that ended last, or None if there is none."""
    own = {}
    for folder in sorted(((root or find_root()) / "results").glob("*")):
        if not folder.name.startswith("published-") and (folder / record.RECORD_NAME).is_file():
            own[folder] = _finished_utc(folder)
    return max((folder for folder in own if own[folder]), key=own.__getitem__, default=None)


def _finished_utc(folder: Path) -> str:
    """Return when a whole chapter ended in a folder, or "" if none did."""
    try:
        run = record.read_record(folder)
        whole = run.command == "chapter" and not lacks_of(folder)
    except ResultsError as error:
        print(f"warning: {shown(folder)} is passed over. {error}", file=sys.stderr)
        return ""
    return (run.finished_utc or "") if whole else ""


def lacks_of(run_dir: Path) -> list[str]:
    """Name what a run lacks of a whole chapter: its end, notebooks, sections.

    Raises:
        ResultsError: If its results or its record cannot be read.
    """
    run = record.read_record(run_dir)
    has_results = (run_dir / RESULTS_NAME).is_file()
    results = read_results(run_dir) if has_results else dict.fromkeys(SECTIONS)
    return [*end_lacking(run), *notebooks_lacking(run_dir), *sections_lacking(results)]


def end_lacking(run: record.RunRecord) -> list[str]:
    """Say how a run stands that did not end well."""
    return [] if run.status == "finished" else [f"status={run.status!r} in place of 'finished'"]


def notebooks_lacking(run_dir: Path) -> list[str]:
    """Name the notebooks that a run did not execute."""
    executed = run_dir / "executed"
    return [f"no executed/{name}" for name in NOTEBOOKS if not (executed / name).is_file()]


def sections_lacking(results: dict[str, object]) -> list[str]:
    """Name the sections that results do not have."""
    missing = [name for name in SECTIONS if results[name] is None]
    return [f"no section{'s' if missing[1:] else ''} {', '.join(missing)}"] if missing else []
