"""The folder of one run, and the results.json in it.

A run folder holds `results.json`, `record.json`, `journal.jsonl` and `executed/`. Each section
of results.json is replaced as a whole, so that a run killed at any moment leaves a valid file.

A section is a file `sections/NN_name.schema.json`, and the notebook of the same name fills it;
nothing else lists them. Its `rowName` is the key that tells its rows apart, and its `madeFrom` the
parts of the run's record that can change a row. A section that a file lacks was not measured, so
that adding one keeps the version.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from labkit import record
from labkit.errors import ResultsError, RunError
from labkit.files import (
    disk_error,
    dump_json,
    find_root,
    parse_json_strict,
    shown,
    write_atomically,
)
from labkit.journal import Journal
from labkit.schemas import first_fault

SCHEMA_VERSION = 1
_SECTION_END = ".schema.json"
_SECTION_FILES = sorted(
    Path(__file__).with_name("sections").glob(f"[0-9][0-9]_*{_SECTION_END}"),
    key=lambda path: path.name,
)
NOTEBOOKS = tuple(f"{path.name.removesuffix(_SECTION_END)}.ipynb" for path in _SECTION_FILES)
SECTIONS = tuple(name.removesuffix(".ipynb").partition("_")[2] for name in NOTEBOOKS)
# How the text of results begins, up to the summary of the run.
_HEAD = f'{{\n "schema_version": {SCHEMA_VERSION},\n "run": '
RESULTS_NAME = "results.json"
JOURNAL_NAME = "journal.jsonl"
LOCK_NAME = ".lock"
SCRATCH = "results/scratch"

# A chapter's notebooks run in processes of their own; they may write where their chapter writes.
OWNER_VARIABLE = "LABKIT_RUN_OWNER"

_MADE = (RESULTS_NAME, JOURNAL_NAME, "executed/[0-9][0-9]_*.ipynb", "records/**/*", "replay/*")
"""What of a run's folder its record vouches for."""


def resolve_run_dir(run_dir: str | Path) -> Path:
    """Return a run's folder; relative ones stand under the clone, and "" is the scratch run."""
    return find_root() / (run_dir or SCRATCH)


def empty_results() -> dict[str, Any]:
    """Return the results of a run that has not measured anything."""
    return {"schema_version": SCHEMA_VERSION, "run": {}, **dict.fromkeys(SECTIONS)}


def load_schema() -> dict[str, Any]:
    """Return the JSON Schema of results.json: its frame, with each section's file put in."""
    schema: dict[str, Any] = _package_json(Path(__file__).with_name("results.schema.json"))
    for name, path in zip(SECTIONS, _SECTION_FILES, strict=True):
        section = {"$ref": "#/$defs/section", **_package_json(path)}
        schema["properties"][name] = {"anyOf": [{"type": "null"}, section]}
    return schema


def row_names() -> dict[str, str]:
    """Return, for each section, the key whose value names a row."""
    files = zip(SECTIONS, _SECTION_FILES, strict=True)
    return {name: _package_json(path)["rowName"] for name, path in files}


def origins_of_sections() -> dict[str, tuple[str, ...]]:
    """Return, for each section, the layers or fields of a record that its rows are made from."""
    files = zip(SECTIONS, _SECTION_FILES, strict=True)
    return {name: tuple(_package_json(path)["madeFrom"]) for name, path in files}


def _package_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def read_results(path: str | Path) -> dict[str, Any]:
    """Read and check a results file, or the one of a run folder.

    Returns:
        The results; a section that the file lacks is None, as one that was not measured.

    Raises:
        ResultsError: If it is missing, not JSON, of another schema version, or against the
            schema; the text names the line or the key.
    """
    place = Path(path)
    file = place / RESULTS_NAME if place.is_dir() else place
    stored = _read_json(file)
    check_results(stored, source=shown(file))
    return {**empty_results(), **stored}


def check_results(stored: object, *, source: str) -> None:
    """Refuse what is not a results object of this version, and name the place."""
    _check_schema(_check_version(stored, source=source), source=source)


def _check_version(stored: object, *, source: str) -> dict[str, Any]:
    """Return results of this version, refusing any other."""
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
    return stored


def _check_schema(stored: Mapping[str, object], *, source: str) -> None:
    """Validate against the schema."""
    if fault := first_fault(stored, load_schema()):
        raise ResultsError(
            f"Results must follow their schema; got {source} at {fault}. "
            "Run the experiment again, or correct the file."
        )


def _read_json(file: Path) -> dict[str, Any]:
    """Return a file's strict JSON, naming the place of an error."""
    try:
        stored: dict[str, Any] = parse_json_strict(file.read_text(encoding="utf-8"))
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
        """Replace the summary of the run's record.

        Each section was checked when it was written; checking them all again would take longer
        than everything else that a record costs.
        """
        results = empty_results()
        if self.results_path.exists():
            stored = _read_json(self.results_path)
            results |= _check_version(stored, source=shown(self.results_path))
        text = dump_json({**results, "run": _summary(run)}, what=RESULTS_NAME)
        write_atomically(self.results_path, text)

    def observe(self, **changes: object) -> None:
        """Add to the record what became known while the run went on.

        Args:
            **changes: See `labkit.record.observe`.
        """
        record.observe(self.path, **changes)

    def start(
        self,
        *,
        command: str,
        profile: Mapping[str, object],
        parameters_passed: Mapping[str, object] | None = None,
    ) -> record.RunRecord:
        """Write the record that says a run has started, and its summary."""
        started = record.start_record(
            self.path, command=command, profile=profile, parameters_passed=parameters_passed
        )
        self.write_run(started)
        return started

    def finish(self, *, failure: BaseException | None = None) -> None:
        """Write how the run ended, and the digests of the files that it made."""
        ended = record.end_record(self.path, failure=failure)
        # The results first: the record holds the digest of what they finally are.
        if text := _resummed(self.results_path, _summary(ended)):
            write_atomically(self.results_path, text)
        else:
            self.write_run(ended)
        found = {path for pattern in _MADE for path in self.path.glob(pattern) if path.is_file()}
        record.seal_record(self.path, ended, files=_whole(found))

    def _write(self, results: Mapping[str, object]) -> None:
        text = dump_json(results, what=RESULTS_NAME)
        check_results(json.loads(text), source=shown(self.results_path))
        write_atomically(self.results_path, text)


def _whole(paths: Iterable[Path]) -> list[Path]:
    """Leave out the notebooks that failed, which a later call replaces, and what is hidden."""
    kept = (path for path in paths if not path.name.startswith("."))
    return [path for path in kept if not path.name.endswith(".failed.ipynb")]


def _resummed(file: Path, summary: Mapping[str, object]) -> str | None:
    """Return results as this version writes them with another summary, or None of any others.

    The summary stands at the head. What follows was read whole when the run started and when a
    section was written; doing so again takes longer than everything else that a record costs.
    """
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if not text.startswith(_HEAD):
        return None
    try:
        _, end = json.JSONDecoder().raw_decode(text, len(_HEAD))
    except ValueError:
        return None
    written = dump_json(summary, what=RESULTS_NAME).rstrip().replace("\n", "\n ")
    return f"{_HEAD}{written}{text[end:]}"


def _summary(run: record.RunRecord) -> dict[str, object]:
    """Return what results.json says of its run; the record says it in full."""
    profile = run.in_force("evaluation.profile")
    model = {
        "name": run.in_force("identity.model") or run.stated("identity.model").requested,
        "revision": run.in_force("identity.revision"),
        "digest": run.in_force("identity.checkpoint"),
    }
    return {
        "id": run.id,
        "status": run.status,
        "started_utc": run.started_utc,
        "finished_utc": run.finished_utc,
        "elapsed_s": run.elapsed_s,
        "profile": profile.get("name") if isinstance(profile, dict) else None,
        "model": model,
        "prompts_digest": run.in_force("identity.prompts"),
    }


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
        folder.start(command=command, profile=profile, parameters_passed=parameters_passed)
        try:
            yield folder
        except BaseException as error:
            folder.finish(failure=error)
            raise
        folder.finish()
