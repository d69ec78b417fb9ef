"""The folder of one run, and the results.json in it.

A run folder holds `results.json`, `record.json`, `journal.jsonl` and `executed/`. Each section
of results.json is replaced as a whole, so that a run killed at any moment leaves a valid file.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from labkit import record
from labkit.errors import ResultsError, RunError
from labkit.files import disk_error, dump_json, find_root, shown, write_atomically
from labkit.journal import Journal

SCHEMA_VERSION = 1
SECTIONS = ("fingerprints", "preservation", "fallbacks", "admission")
RESULTS_NAME = "results.json"
JOURNAL_NAME = "journal.jsonl"
LOCK_NAME = ".lock"
SCRATCH = "results/scratch"

# A chapter's notebooks run in processes of their own; they may write where their chapter writes.
OWNER_VARIABLE = "LABKIT_RUN_OWNER"

_RUN_FIELDS = (
    "id",
    "status",
    "started_utc",
    "finished_utc",
    "elapsed_s",
    "model",
    "prompts_digest",
    "commit",
    "python",
    "packages",
    "device",
)


def resolve_run_dir(run_dir: str | Path) -> Path:
    """Return a run's folder; relative ones stand under the clone, and "" is the scratch run."""
    return find_root() / (run_dir or SCRATCH)


def empty_results() -> dict[str, Any]:
    """Return the results of a run that has not measured anything."""
    return {"schema_version": SCHEMA_VERSION, "run": {}, **dict.fromkeys(SECTIONS)}


def load_schema() -> dict[str, Any]:
    """Return the JSON Schema of results.json, which lies in the package."""
    text = Path(__file__).with_name("results.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def read_results(path: Path) -> dict[str, Any]:
    """Read and check a results file, or the one of a run folder.

    Raises:
        ResultsError: If it is missing, not JSON, of another schema version, or against the
            schema; the text names the line or the key.
    """
    file = path / RESULTS_NAME if path.is_dir() else path
    stored = _read_json(file)
    check_results(stored, source=shown(file))
    return stored


def check_results(stored: object, *, source: str) -> None:
    """Refuse what is not a results object of this version, and name the place."""
    if not isinstance(stored, dict):
        raise ResultsError(
            f"Results must be a JSON object; got {type(stored).__name__} in {source}."
        )
    if stored.get("schema_version") != SCHEMA_VERSION:
        raise ResultsError(
            f"Results must have schema_version={SCHEMA_VERSION}; "
            f"got schema_version={stored.get('schema_version')!r} in {source}. "
            "Read them with the release of labkit that wrote them, or run the experiment again."
        )
    _check_schema(stored, source=source)


def _check_schema(stored: Mapping[str, object], *, source: str) -> None:
    """Validate against the schema; jsonschema is loaded only here."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    if error := best_match(Draft202012Validator(load_schema()).iter_errors(stored)):
        raise ResultsError(
            f"Results must follow their schema; got {source} at {error.json_path}: "
            f"{error.message}. Run the experiment again, or correct the file."
        )


def _read_json(file: Path) -> dict[str, Any]:
    """Return a file's JSON, refusing NaN and naming the place of an error."""
    try:
        stored: dict[str, Any] = json.loads(
            file.read_text(encoding="utf-8"), parse_constant=_refuse_constant
        )
    except FileNotFoundError as error:
        raise ResultsError(
            f"A results file must exist; got path={shown(file)}. "
            "Name a run's folder, or make one with `labkit chapter`."
        ) from error
    except json.JSONDecodeError as error:
        raise ResultsError(
            f"Results must be JSON; got path={shown(file)}, line={error.lineno}, "
            f"column={error.colno}: {error.msg}. Remove the file and call the command that made "
            "it again: the journal keeps what was measured."
        ) from error
    except ValueError as error:
        raise ResultsError(
            f"Results must be UTF-8 JSON; got path={shown(file)}: {error}"
        ) from error
    return stored


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


class RunFolder:
    """The folder of one run, held by one process at a time.

    Use it as a context manager. A notebook of a chapter joins the folder that its chapter
    holds; any other second process is refused.
    """

    def __init__(self, path: str | Path) -> None:
        """Create the folder if need be and take hold of it.

        Args:
            path: The folder, relative to the clone or absolute; "" is the scratch run.

        Raises:
            RunError: If another process holds it, or it cannot be made.
        """
        self.path = resolve_run_dir(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / LOCK_NAME).open("a+", encoding="utf-8")
        except OSError as error:
            raise disk_error(error, path=self.path / LOCK_NAME, needed_bytes=0) from error
        self.joined = not self._take_lock()

    def _take_lock(self) -> bool:
        """Return whether the lock is ours; False if it is our chapter's."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            if os.environ.get(OWNER_VARIABLE) == owner:
                return False
            self._lock.close()
            raise RunError(
                f"One process at a time may write a run folder; got path={shown(self.path)}, "
                f"held by pid={owner}. Wait for it to end, or name another folder with --run."
            ) from error
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()
        self._sweep()
        return True

    def _sweep(self) -> None:
        """Remove what a killed process left half-written; nobody else writes here now."""
        for scrap in (*self.path.glob(".*.part"), *self.path.glob(".part-*")):
            if scrap.is_dir():
                shutil.rmtree(scrap, ignore_errors=True)
            else:
                scrap.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the folder."""
        self._lock.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def results_path(self) -> Path:
        """Where the results lie."""
        return self.path / RESULTS_NAME

    @property
    def executed_path(self) -> Path:
        """Where the executed notebooks lie."""
        return self.path / "executed"

    def journal(self) -> Journal:
        """Open the run's journal."""
        return Journal(self.path / JOURNAL_NAME)

    def read(self) -> dict[str, Any]:
        """Return the results so far; a run that has none yet has empty ones."""
        return read_results(self.results_path) if self.results_path.exists() else empty_results()

    def write_section(self, name: str, section: Mapping[str, object]) -> None:
        """Replace one section, leaving the others as they are.

        Raises:
            ResultsError: If there is no such section, it holds a NaN, or breaks the schema.
            RunError: If the disk is full; the old file stays.
        """
        if name not in SECTIONS:
            raise ResultsError(
                f"A section must be one of {', '.join(SECTIONS)}; got section={name!r}."
            )
        self._write({**self.read(), name: dict(section)})

    def write_run(self, run: record.RunRecord) -> None:
        """Replace the summary of the run's record."""
        full = run.to_json()
        summary = {key: full[key] for key in _RUN_FIELDS}
        self._write({**self.read(), "run": {**summary, "profile": run.profile.get("name")}})

    def amend_run(self, **changes: object) -> None:
        """Add to the record, and to its summary, what became known while the run went on."""
        self.write_run(record.amend_record(self.path, **changes))

    def _write(self, results: Mapping[str, object]) -> None:
        text = dump_json(results, what=RESULTS_NAME)
        check_results(json.loads(text), source=shown(self.results_path))
        write_atomically(self.results_path, text)


@contextmanager
def recorded_run(
    run_dir: str | Path,
    *,
    command: str,
    profile: Mapping[str, object],
    parameters_passed: Mapping[str, object] | None = None,
) -> Iterator[RunFolder]:
    """Hold a run folder, with a record that says started, then finished or failed.

    Inside a chapter the record is the chapter's, so it is left alone.
    """
    with RunFolder(run_dir) as folder:
        if folder.joined:
            yield folder
            return
        started = record.start_record(
            folder.path, command=command, profile=profile, parameters_passed=parameters_passed
        )
        folder.write_run(started)
        try:
            yield folder
        except BaseException as error:
            folder.write_run(record.finish_record(folder.path, failure=error))
            raise
        folder.write_run(record.finish_record(folder.path))
