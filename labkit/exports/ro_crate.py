"""A run as a Process Run Crate: its files, what made them, and from what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import ResultsError, RunError
from labkit.files import canonical_json, disk_error, shown
from labkit.record import RECORD_NAME, RunRecord, check_artefacts, folder_of, read_record

if TYPE_CHECKING:
    from rocrate.rocrate import ROCrate

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
_STATUS = {
    "started": "http://schema.org/ActiveActionStatus",
    "finished": "http://schema.org/CompletedActionStatus",
    "failed": "http://schema.org/FailedActionStatus",
}
_INPUTS = ("identity.model", "identity.checkpoint", "identity.prompts", "evaluation.profile")


def write_crate(run: Path, target: Path) -> Path:
    """Write a run as a Process Run Crate.

    Args:
        run: The run's folder, or the record in it.
        target: A folder that is new or empty.

    Returns:
        The crate's metadata file.

    Raises:
        ResultsError: If a file is not the one that the record vouches for.
        RunError: If the target holds something, is or lies below a file, or the packages for
            a crate are missing.
    """
    record, folder = read_record(run), folder_of(run)
    if faults := check_artefacts(record, folder):
        raise ResultsError(f"A crate must hold the run's own files; got {'; '.join(faults)}.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        fault = "which holds something" if target.is_dir() else "which is a file"
        raise RunError(
            f"A crate must go into an empty folder; got path={shown(target)}, {fault}. "
            "Name another one."
        )
    crate = _new_crate(record)
    files = [_add_file(crate, folder, RECORD_NAME)]
    files += [_add_file(crate, folder, item.path, sha256=item.sha256) for item in record.artefacts]
    _add_run(crate, record, files=files)
    try:
        crate.write(target)
    except OSError as error:
        size = sum(item.size_bytes for item in record.artefacts)
        raise disk_error(error, path=target, needed_bytes=size) from error
    return target / "ro-crate-metadata.json"


def _new_crate(record: RunRecord) -> ROCrate:
    try:
        from rocrate.model.contextentity import ContextEntity
        from rocrate.rocrate import ROCrate
    except ModuleNotFoundError as error:
        raise RunError(
            "Writing a crate needs the package rocrate, which is not installed. Install "
            "`labkit[exports]`, or call `make setup`."
        ) from error
    crate = ROCrate()
    crate.name = f"Run {record.id}"
    crate.description = f"Files and record of the run {record.id} of labkit {record.command}."
    crate.license = "https://spdx.org/licenses/Apache-2.0"
    # The crate's own clock would make two crates of one run differ.
    crate.datePublished = record.finished_utc or record.started_utc
    properties = {"@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    crate.root_dataset["conformsTo"] = crate.add(ContextEntity(crate, PROFILE, properties))
    return crate


def _add_file(crate: ROCrate, folder: Path, path: str, **properties: str) -> Any:
    size = str((folder / path).stat().st_size)
    return crate.add_file(
        folder / path, dest_path=path, properties={"contentSize": size, **properties}
    )


def _add_run(crate: ROCrate, record: RunRecord, *, files: list[Any]) -> None:
    """Add the action that made the files, the program that ran, and what it ran on."""
    from rocrate.model.contextentity import ContextEntity
    from rocrate.model.softwareapplication import SoftwareApplication

    packages = record.in_force("substrate.packages")
    release = packages.get("labkit") if isinstance(packages, dict) else None
    named = {"name": "labkit", **({"softwareVersion": release} if release else {})}
    program = crate.add(SoftwareApplication(crate, "#labkit", properties=named))
    inputs = []
    for name in _INPUTS:
        if (value := record.in_force(name)) is not None:
            text = value if isinstance(value, str) else canonical_json(value)
            stated = {"@type": "PropertyValue", "name": name, "value": text}
            inputs.append(crate.add(ContextEntity(crate, f"#{name}", properties=stated)))
    times = {"startTime": record.started_utc, "endTime": record.finished_utc}
    action = {
        "name": f"labkit {record.command}",
        **{key: value for key, value in times.items() if value is not None},
        "actionStatus": {"@id": _STATUS[record.status]},
        **({"error": record.failure["message"]} if record.failure else {}),
    }
    made = crate.add_action(
        program, identifier=f"#{record.id}", object=inputs, result=files, properties=action
    )
    crate.root_dataset.append_to("mentions", made)
