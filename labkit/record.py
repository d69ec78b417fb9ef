"""The run record: what ran, on what, from which sources, and how it ended.

It is written before the work starts, so that a killed run shows as `started`, and again when
the run ends or fails. It names no host, and no folder but one that the caller named as a model.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from labkit.errors import ResultsError
from labkit.files import dump_json, find_root, shown, write_atomically

RECORD_VERSION = 1
RECORD_NAME = "record.json"
STATUSES = ("started", "finished", "failed")

_PACKAGES = (
    "altair",
    "gguf",
    "jupyter-book",
    "labkit",
    "mistral-common",
    "numpy",
    "papermill",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Everything needed to say which run this was.

    Attributes:
        id: Profile name and UTC start, unique enough to tell two runs apart.
        status: `started`, `finished` or `failed`.
        command: The subcommand that ran.
        profile: The profile in force, in full.
        parameters_passed: What the caller set apart from the profile.
        model: Name, revision and digest, as far as known.
        prompts_digest: SHA-256 of the frozen prompts, once they were read.
        seeds: Every seed, by what it seeds.
        commit: Commit id and whether the tree differed from it; None outside git.
        packages: Installed versions of what can change a result.
        device: Processor, cores, threads, memory, accelerator.
        journal_problems: Lines of the journal that could not be read; their units ran again.
        failure: Type and message of what ended the run, if it failed.
        elapsed_s: Seconds from the last start to the end.
    """

    schema_version: int = RECORD_VERSION
    id: str
    status: str
    command: str
    started_utc: str
    finished_utc: str | None = None
    elapsed_s: float | None = None
    profile: Mapping[str, object]
    parameters_passed: Mapping[str, object] = field(default_factory=dict)
    model: Mapping[str, object] = field(default_factory=dict)
    prompts_digest: str | None = None
    seeds: Mapping[str, int] = field(default_factory=dict)
    commit: Mapping[str, object] | None = None
    python: str
    packages: Mapping[str, str]
    device: Mapping[str, object]
    journal_problems: Sequence[str] = field(default_factory=list)
    failure: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, object]:
        """Return the record as plain JSON."""
        return dataclasses.asdict(self)


def start_record(
    folder: Path,
    *,
    command: str,
    profile: Mapping[str, object],
    parameters_passed: Mapping[str, object] | None = None,
    seeds: Mapping[str, int] | None = None,
) -> RunRecord:
    """Write a record with status `started` and return it."""
    now = _utc_now()
    stamp = now.replace("-", "").replace(":", "")
    record = RunRecord(
        id=f"{profile.get('name', 'run')}-{stamp}",
        status="started",
        command=command,
        started_utc=now,
        profile=dict(profile),
        parameters_passed=dict(parameters_passed or {}),
        model={"name": profile.get("model"), "revision": profile.get("revision"), "digest": None},
        seeds=dict(seeds or {}),
        commit=read_commit(),
        python=platform.python_version(),
        packages=package_versions(),
        device=describe_device(),
    )
    return _write(folder, record)


def amend_record(folder: Path, **changes: object) -> RunRecord:
    """Add what became known while the run went on: the model's digest, the accelerator."""
    return _write(folder, _changed(read_record(folder), changes))


def finish_record(folder: Path, *, failure: BaseException | None = None) -> RunRecord:
    """Mark the record `finished`, or `failed` with what ended the run."""
    record = read_record(folder)
    now = _utc_now()
    elapsed = datetime.fromisoformat(now) - datetime.fromisoformat(record.started_utc)
    changes: dict[str, object] = {
        "status": "failed" if failure else "finished",
        "finished_utc": now,
        "elapsed_s": elapsed.total_seconds(),
        "failure": _describe_failure(failure) if failure else None,
    }
    return _write(folder, _changed(record, changes))


def read_record(folder: Path) -> RunRecord:
    """Read a run's record.

    Raises:
        ResultsError: If it is missing, corrupt, of another version, or has other fields.
    """
    path = folder / RECORD_NAME
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ResultsError(
            f"A run folder must hold {RECORD_NAME}; got path={shown(path)}, which does not exist. "
            "Name the folder of a run."
        ) from error
    except ValueError as error:
        raise ResultsError(
            f"A record must be JSON; got path={shown(path)}, error={error}. "
            "Remove the file and call the command that made the run again."
        ) from error
    return record_from_json(stored, source=shown(path))


def record_from_json(stored: object, *, source: str) -> RunRecord:
    """Build a record from JSON, refusing other versions and other fields by name."""
    if not isinstance(stored, dict):
        raise ResultsError(
            f"A record must be a JSON object; got {type(stored).__name__} in {source}."
        )
    if stored.get("schema_version") != RECORD_VERSION:
        raise ResultsError(
            f"A record must have schema_version={RECORD_VERSION}; "
            f"got schema_version={stored.get('schema_version')!r} in {source}. "
            "Read it with the release of labkit that wrote it."
        )
    return _changed(None, stored, source=source)


def read_commit() -> dict[str, object] | None:
    """Return the clone's commit and whether its tracked files differ from it."""
    try:
        commit = _git("rev-parse", "HEAD")
        changes = _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return {"id": commit, "dirty": bool(changes)}


def package_versions() -> dict[str, str]:
    """Return the installed versions of the packages that can change a result."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe_device() -> dict[str, object]:
    """Return what the run computes on; torch is asked only if something loaded it already."""
    torch = sys.modules.get("torch")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads() if torch else None,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "accelerator": _accelerator(torch),
    }


def _accelerator(torch: object) -> str | None:
    """Return the name of the CUDA device that torch sees."""
    cuda = getattr(torch, "cuda", None)
    return str(cuda.get_device_name(0)) if cuda and cuda.is_available() else None


def _processor() -> str:
    """Return the processor's model name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _git(*arguments: str) -> str:
    """Return what git prints about the clone."""
    command = ["git", "-C", str(find_root()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.strip()


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _describe_failure(failure: BaseException) -> dict[str, str]:
    message = str(failure).replace(str(Path.home()), "~")
    return {"type": type(failure).__name__, "message": message}


def _changed(
    record: RunRecord | None, changes: Mapping[str, object], *, source: str = "the change"
) -> RunRecord:
    """Return a record with other values, refusing fields it does not have."""
    merged = {**(record.to_json() if record else {}), **changes}
    names = {item.name for item in dataclasses.fields(RunRecord)}
    if unknown := sorted(set(merged) - names):
        raise ResultsError(f"A record has no such fields; got {', '.join(unknown)} in {source}.")
    if merged.get("status") not in STATUSES:
        raise ResultsError(
            f"A record's status must be one of {', '.join(STATUSES)}; "
            f"got status={merged.get('status')!r} in {source}."
        )
    try:
        return RunRecord(**merged)  # type: ignore[arg-type]  # names checked above
    except TypeError as error:
        raise ResultsError(f"A record must have all its fields; got {source}: {error}.") from error


def _write(folder: Path, record: RunRecord) -> RunRecord:
    """Write the record and return it."""
    text = dump_json(record.to_json(), what=RECORD_NAME)
    write_atomically(folder / RECORD_NAME, text)
    return record
