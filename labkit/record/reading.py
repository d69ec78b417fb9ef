"""Read a record, refusing by name and number what is no whole record of this version."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from labkit.errors import ResultsError
from labkit.files import parse_json_strict, sha256_of, shown
from labkit.record.layers import LAYERS, STAGES, Stated, fields_of_layers
from labkit.record.model import RECORD_NAME, RECORD_VERSION, STATUSES, Artefact, RunRecord
from labkit.record.schema import SHA256, UTC

_TOP = (
    "schema_version",
    "id",
    "status",
    "command",
    "started_utc",
    "finished_utc",
    "elapsed_s",
    *LAYERS,
    "artefacts",
    "journal_problems",
    "failure",
    "changes",
)
_Check = Callable[[object], bool]
_TYPES: Mapping[str, _Check] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}


def read_record(folder: str | Path) -> RunRecord:
    """Read the record of a run's folder, or a record's file.

    Raises:
        ResultsError: If it is missing, corrupt, of another version, has unknown, missing or
            ill-typed fields, or contradicts itself.
    """
    place = Path(folder)
    path = place if place.suffix == ".json" and place.is_file() else place / RECORD_NAME
    try:
        stored = parse_json_strict(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ResultsError(
            f"A run folder must hold {RECORD_NAME}; got path={shown(path)}, which does not exist. "
            "Name the folder of a run."
        ) from error
    except (ValueError, OSError) as error:
        raise ResultsError(
            f"A record must be JSON; got path={shown(path)}, error={error}. "
            "Remove the file and call the command that made the run again."
        ) from error
    return record_from_json(stored, source=shown(path))


def record_from_json(stored: object, *, source: str) -> RunRecord:
    """Build a record from JSON; see `read_record` for what is refused."""
    if not isinstance(stored, dict):
        raise ResultsError(
            f"A record must be a JSON object; got {type(stored).__name__} in {source}."
        )
    version = stored.get("schema_version")
    if version != RECORD_VERSION or type(version) is not int:
        raise ResultsError(
            f"A record must have schema_version={RECORD_VERSION}; "
            f"got schema_version={version!r} in {source}. "
            "Read it with the release of labkit that wrote it."
        )
    _require_keys(stored, _TOP, what="A record", source=source)
    for name, (holds, what) in _SCALARS.items():
        _require(holds(stored[name]), f"{name} must be {what}", name, stored[name], source)
    record = _build(stored, source=source)
    _refuse_contradictions(record, stored["changes"], source=source)
    return record


def folder_of(run: Path) -> Path:
    """Return the folder of a run that is named by its folder, or by the record in it."""
    return run.parent if run.is_file() else run


def check_artefacts(record: RunRecord, folder: Path) -> list[str]:
    """Name each file of a run that is missing, or is not the one that the record is about."""
    faults = []
    for item in record.artefacts:
        try:
            fault = _fault_of(folder / item.path, item)
        except OSError as error:  # no permission, or a name that no file can have
            fault = f"cannot be read: {error.strerror}"
        if fault:
            faults.append(f"artefact {item.path} {fault}")
    return faults


def _fault_of(path: Path, item: Artefact) -> str | None:
    if not path.is_file():
        return "is not there"
    if (found := sha256_of(path)) != item.sha256:
        return f"must have sha256={item.sha256}; got {found}"
    if (size := path.stat().st_size) != item.size_bytes:
        return f"must have size_bytes={item.size_bytes}; got {size}"
    return None


def _require(holds: bool, rule: str, name: str, value: object, source: str) -> None:
    if not holds:
        raise ResultsError(f"{rule}; got {name}={value!r} in {source}.")


def _require_keys(found: Mapping[str, object], known: Any, *, what: str, source: str) -> None:
    """Refuse an object with other keys than these."""
    if unknown := sorted(set(found) - set(known)):
        raise ResultsError(f"{what} has no such fields; got {', '.join(unknown)} in {source}.")
    if missing := [name for name in known if name not in found]:
        raise ResultsError(
            f"{what} must have all its fields; got {source} without {', '.join(missing)}."
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_utc(value: object) -> bool:
    """Say whether a value is a time of the calendar, to the second and in UTC."""
    if not isinstance(value, str) or re.fullmatch(UTC, value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_failure(value: object) -> bool:
    texts = isinstance(value, dict) and set(value) == {"type", "message"}
    return texts and all(isinstance(text, str) for text in value.values())  # type: ignore[attr-defined]  # texts says it is a dict


_SCALARS: Mapping[str, tuple[_Check, str]] = {
    "id": (_is_text, "a text"),
    "status": (lambda v: v in STATUSES, f"one of {', '.join(STATUSES)}"),
    "command": (_is_text, "a text"),
    "started_utc": (_is_utc, "a UTC time such as 2026-01-31T12:00:00Z"),
    "finished_utc": (lambda v: v is None or _is_utc(v), "null or a UTC time"),
    "elapsed_s": (lambda v: v is None or _is_seconds(v), "null or seconds, at least 0"),
    "failure": (lambda v: v is None or _is_failure(v), "null or a type and a message"),
    "artefacts": (lambda v: isinstance(v, list), "a list"),
    "changes": (lambda v: isinstance(v, list), "a list"),
    "journal_problems": (
        lambda v: isinstance(v, list) and all(isinstance(line, str) for line in v),
        "a list of texts",
    ),
}


_BUILT = (*LAYERS, "changes", "artefacts", "journal_problems")


def _build(stored: Mapping[str, Any], *, source: str) -> RunRecord:
    layers = {name: _layer(name, stored[name], source=source) for name in LAYERS}
    problems = tuple(stored["journal_problems"])
    plain = {name: stored[name] for name in _TOP if name not in _BUILT}
    artefacts = tuple(_artefact(item, source=source) for item in stored["artefacts"])
    return RunRecord(**plain, **layers, artefacts=artefacts, journal_problems=problems)


def _layer(layer: str, stored: object, *, source: str) -> Any:
    _require(isinstance(stored, dict), f"{layer} must be an object", layer, stored, source)
    assert isinstance(stored, dict)
    keys = [item.name for item in dataclasses.fields(LAYERS[layer])]
    _require_keys(stored, keys, what=f"The layer {layer}", source=source)
    made = {key: stated_from_json(f"{layer}.{key}", stored[key], source=source) for key in keys}
    return LAYERS[layer](**made)


def stated_from_json(name: str, stored: object, *, source: str) -> Stated:
    """Return a field of a layer, refusing unknown stages and values of another type.

    Args:
        name: `layer.field`.
        stored: An object of stages.
        source: Where it stands, for the message.
    """
    _require(isinstance(stored, dict), f"{name} must be an object of stages", name, stored, source)
    assert isinstance(stored, dict)
    if unknown := sorted(set(stored) - set(STAGES)):
        raise ResultsError(
            f"{name} has only the stages {', '.join(STAGES)}; got {', '.join(unknown)} in {source}."
        )
    holds = fields_of_layers()[name].holds
    for stage, value in stored.items():
        fits = any(_TYPES[kind](value) for kind in holds)
        _require(fits, f"{name} must be {' or '.join(holds)}", f"{name}.{stage}", value, source)
    return Stated(**stored)


def _artefact(stored: object, *, source: str) -> Artefact:
    _require(isinstance(stored, dict), "An artefact must be an object", "artefact", stored, source)
    assert isinstance(stored, dict)
    _require_keys(stored, ("path", "sha256", "size_bytes"), what="An artefact", source=source)
    path, digest, size = stored["path"], stored["sha256"], stored["size_bytes"]
    _require(_is_text(path), "An artefact's path must be a text", "path", path, source)
    # A path that leaves the folder would let a record vouch for somebody else's file.
    inside = not Path(path).is_absolute() and ".." not in Path(path).parts
    _require(inside, "An artefact must lie in the run's folder", "path", path, source)
    hexadecimal = isinstance(digest, str) and re.fullmatch(SHA256, digest) is not None
    _require(hexadecimal, f"{path} must have a SHA-256", "sha256", digest, source)
    counted = _TYPES["integer"](size) and size >= 0
    _require(counted, f"{path} must have a size of at least 0", "size_bytes", size, source)
    return Artefact(path=path, sha256=digest, size_bytes=size)


def _refuse_contradictions(record: RunRecord, changes: object, *, source: str) -> None:
    """Refuse a record whose parts cannot all be true."""
    ended = record.status != "started"
    faults = {
        "a run that ended has its end, and a started one has none": (
            ended == (record.finished_utc is not None) == (record.elapsed_s is not None),
            f"status={record.status!r}, finished_utc={record.finished_utc!r}, "
            f"elapsed_s={record.elapsed_s!r}",
        ),
        "a failed run has its failure, and no other has one": (
            (record.status == "failed") == (record.failure is not None),
            f"status={record.status!r}, failure={record.failure!r}",
        ),
        "a run ends after it started": (
            record.finished_utc is None or record.finished_utc >= record.started_utc,
            f"started_utc={record.started_utc!r}, finished_utc={record.finished_utc!r}",
        ),
        "only a run that ended has artefacts": (
            ended or not record.artefacts,
            f"status={record.status!r}, artefacts={len(record.artefacts)}",
        ),
        "a file is listed once": (
            len({Path(item.path) for item in record.artefacts}) == len(record.artefacts),
            f"artefacts={', '.join(item.path for item in record.artefacts)}",
        ),
        "the changes are those that the stages show": (
            changes == record.to_json()["changes"],
            f"changes of {_names(changes)} in place of {_names(record.to_json()['changes'])}",
        ),
    }
    for rule, (holds, got) in faults.items():
        if not holds:
            raise ResultsError(
                f"A record must not contradict itself: {rule}; got {got} in {source}."
            )


def _names(changes: object) -> str:
    items = changes if isinstance(changes, list) else []
    fields = [str(item.get("field")) if isinstance(item, dict) else repr(item) for item in items]
    return ", ".join(fields) or "nothing"
