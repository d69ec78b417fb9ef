"""What a run's folder has to show: its record, its results, its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import ResultsError
from labkit.files import parse_json_strict, shown
from labkit.record import REPLAY_FOLDER, RunRecord, check_artefacts, folder_of, read_record
from labkit.results import SECTIONS, empty_results, read_results


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """A run's folder as far as it can be read.

    Attributes:
        folder: The folder.
        record: Its record.
        results: Its results; empty ones where the run kept none.
        results_fault: Why the results could not be read, where they could not.
        file_faults: Files that are missing or are not the ones the record vouches for.
        outputs: The lines of the replay bundle's outputs.
    """

    folder: Path
    record: RunRecord
    results: Mapping[str, Any]
    results_fault: str | None = None
    file_faults: tuple[str, ...] = ()
    outputs: tuple[Mapping[str, Any], ...] = field(default=())

    def rows(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield every measured row with its section."""
        for name in SECTIONS:
            for row in (self.results[name] or {}).get("rows", ()):
                yield name, row


def gather(run: Path) -> RunEvidence:
    """Read what a run's folder has to show.

    Args:
        run: The folder, or the record in it.

    Raises:
        ResultsError: If it has no valid record; without one nothing can be said of a run.
    """
    record, folder = read_record(run), folder_of(run)
    results, fault = empty_results(), None
    if (folder / "results.json").exists():
        try:
            results = read_results(folder)
        except ResultsError as error:
            fault = str(error)
    return RunEvidence(
        folder=folder,
        record=record,
        results=results,
        results_fault=fault,
        file_faults=tuple(check_artefacts(record, folder)),
        outputs=_outputs(folder / REPLAY_FOLDER / "outputs.jsonl"),
    )


def _outputs(path: Path) -> tuple[Mapping[str, Any], ...]:
    if not path.is_file():
        return ()
    try:
        # JSON allows separators inside a text at which splitlines would cut.
        text = path.read_text(encoding="utf-8").removesuffix("\n")
        lines = text.split("\n") if text else []
        return tuple(_output(line, number) for number, line in enumerate(lines, 1))
    except (OSError, ValueError) as error:
        raise ResultsError(
            f"Outputs must be lines of JSON; got path={shown(path)}: {error}."
        ) from error


def _output(line: str, number: int) -> Mapping[str, Any]:
    try:
        stored = parse_json_strict(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from error
    if not isinstance(stored, dict):
        raise ValueError(f"line {number} is of type {type(stored).__name__}, not an object")
    return stored
