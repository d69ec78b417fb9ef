"""Write a record: before the run, while more becomes known, and when it ends.

It is written before the work starts, so that a killed run shows as `started`. What was asked
for, what it was turned into and what was seen in the live objects are kept apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labkit.errors import ResultsError
from labkit.files import dump_json, sha256_of, write_atomically
from labkit.record import machine
from labkit.record.layers import STAGES, Stated, fields_of_layers
from labkit.record.model import RECORD_NAME, Artefact, RunRecord, stated_json
from labkit.record.reading import read_record, stated_from_json


def start_record(
    folder: Path,
    *,
    command: str,
    profile: Mapping[str, object],
    parameters_passed: Mapping[str, object] | None = None,
) -> RunRecord:
    """Write a record with status `started` and return it."""
    now = _utc_now()
    stamp = now.replace("-", "").replace(":", "")
    record = RunRecord(
        id=f"{profile.get('name', 'run')}-{stamp}",
        status="started",
        command=command,
        started_utc=now,
    )
    record = with_stages(record, "requested", _requested(profile))
    record = with_stages(record, "resolved", {"evaluation.profile": dict(profile)})
    record = with_stages(
        record,
        "observed",
        {
            **machine.substrate(),
            "evaluation.parameters": dict(parameters_passed or {}),
            "evaluation.harness": machine.read_commit() or "not in git",
        },
    )
    return _write(folder, record)


def observe(folder: Path, **changes: Any) -> RunRecord:
    """Add what became known while the run went on.

    Args:
        folder: The run's folder.
        **changes: `requested`, `resolved` and `observed`, each a mapping from `layer.field` to a
            value; and `journal_problems`.

    Raises:
        ResultsError: If a field is unknown or a value is of another type; the file stays.
    """
    record = read_record(folder)
    if unknown := sorted(set(changes) - {*STAGES, "journal_problems"}):
        raise ResultsError(
            f"A record is amended by {', '.join(STAGES)} and journal_problems; "
            f"got {', '.join(unknown)}."
        )
    for stage in STAGES:
        record = with_stages(record, stage, changes.get(stage, {}))
    if "journal_problems" in changes:
        record = dataclasses.replace(record, journal_problems=tuple(changes["journal_problems"]))
    return _write(folder, record)


def end_record(folder: Path, *, failure: BaseException | None = None) -> RunRecord:
    """Return the record of a run that ends now: `finished`, or `failed` with what ended it.

    It is written by `seal_record`, once the files whose digests it holds are in place.
    """
    record = read_record(folder)
    now = _utc_now()
    elapsed = datetime.fromisoformat(now) - datetime.fromisoformat(record.started_utc)
    return dataclasses.replace(
        record,
        status="failed" if failure else "finished",
        finished_utc=now,
        elapsed_s=elapsed.total_seconds(),
        failure=_describe_failure(failure) if failure else None,
    )


def seal_record(folder: Path, record: RunRecord, *, files: Iterable[Path]) -> RunRecord:
    """Write an ended record with the digests of the files that the run made."""
    made = [
        Artefact(
            path=path.relative_to(folder).as_posix(),
            sha256=sha256_of(path),
            size_bytes=path.stat().st_size,
        )
        for path in sorted(files)
    ]
    return _write(folder, dataclasses.replace(record, artefacts=tuple(made)))


def with_stages(record: RunRecord, stage: str, values: Mapping[str, object]) -> RunRecord:
    """Return a record with one stage of some fields set.

    Args:
        record: The record.
        stage: `requested`, `resolved` or `observed`.
        values: Values by `layer.field`; None takes the stage away again.

    Raises:
        ResultsError: If a field is unknown, or a value is of another type.
    """
    if unknown := sorted(set(values) - set(fields_of_layers())):
        raise ResultsError(f"A record has no such fields; got {', '.join(unknown)}.")
    layers: dict[str, dict[str, Stated]] = {}
    for name, value in values.items():
        layer, _, key = name.partition(".")
        stages = {**stated_json(record.stated(name)), stage: value}
        known = {stage: item for stage, item in stages.items() if item is not None}
        layers.setdefault(layer, {})[key] = stated_from_json(name, known, source="the change")
    made = {
        layer: dataclasses.replace(getattr(record, layer), **fields)
        for layer, fields in layers.items()
    }
    return dataclasses.replace(record, **made)


def _requested(profile: Mapping[str, object]) -> dict[str, object]:
    """Return what a profile asks for, by the record's fields."""
    asked = {
        "identity.model": profile.get("model"),
        "identity.revision": profile.get("revision"),
        "execution.device": profile.get("device"),
        "execution.dtype": profile.get("dtype"),
        "execution.steps": profile.get("steps"),
    }
    return {name: value for name, value in asked.items() if value is not None}


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _describe_failure(failure: BaseException) -> dict[str, str]:
    message = str(failure).replace(str(Path.home()), "~")
    return {"type": type(failure).__name__, "message": message}


def _write(folder: Path, record: RunRecord) -> RunRecord:
    """Write the record and return it."""
    text = dump_json(record.to_json(), what=RECORD_NAME)
    write_atomically(folder / RECORD_NAME, text)
    return record
