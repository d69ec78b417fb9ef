"""Put a run where the book reads it, whole or not, with the pages that are about it.

A run that lacks something is shown all the same: a page stands in for what is missing and says how
to get it. A file that is there and cannot be what it claims to be stops the book, by its name.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import record
from labkit.book.about import describe_run, describe_stored
from labkit.book.choosing import end_lacking, notebooks_lacking, sections_lacking
from labkit.book.comparing import describe_comparison
from labkit.book.status import describe_status, is_of_older_source
from labkit.book.syncing import fill_folder
from labkit.errors import ResultsError, RunError
from labkit.files import disk_error, find_root, load_json_strict, shown, write_atomically
from labkit.results import NOTEBOOKS, RESULTS_NAME, SCHEMA_VERSION, empty_results, read_results
from labkit.staged import SHOWN_NAME, STAGE, Shown, admonition, shown_text

COPY_MARK = ".labkit-copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What could be read of a run.

    Attributes:
        run: Its record, if it has one of this version.
        results: Its results; a section it lacks is None.
        lacks: What is missing or of another version.
        copied: The files that go to the stage as they are.
        executed: The notebooks that it executed, by name.
    """

    run: record.RunRecord | None
    results: dict[str, Any]
    lacks: tuple[str, ...]
    copied: tuple[Path, ...]
    executed: dict[str, Path]


def stage_run(run_dir: Path, *, root: Path | None = None) -> Path:
    """Copy a run's notebooks and results to where the book reads them, and write its pages.

    Raises:
        ResultsError: If a file of the run is corrupt or not the one that its record vouches for;
            what was staged before stays.
        RunError: If the run is a file.
    """
    read = _read_run(run_dir)
    facts = Shown(run=shown(run_dir), lacks=read.lacks, remedy=_remedy(run_dir, read))
    if read.lacks:
        print(f"warning: {facts.summary()}", file=sys.stderr)
    pages = _pages(run_dir, read=read, facts=facts, root=root)
    contents = {path.name: path.read_bytes() for path in read.copied}
    contents |= {name: page.encode() for name, page in pages.items()}
    contents[SHOWN_NAME] = shown_text(facts).encode()
    stage = (root or find_root()) / STAGE
    fill_folder(stage, contents)
    return stage


def copy_source(target: Path, *, root: Path | None = None) -> Path:
    """Copy the book's pages and settings, so that another run can be built beside one's own.

    Args:
        target: The folder: an empty one, or one that holds an earlier copy, which is put right
            where it differs, but for the run that was staged there.
        root: The clone.

    Raises:
        RunError: If the folder is the clone or holds other files, or if it cannot be written.
    """
    top = root or find_root()
    _refuse_target(target, top=top)
    write_atomically(target / COPY_MARK, "A copy of the book; it is replaced when one is made.\n")
    source, stage = top / "book", top / STAGE
    files = [path for path in source.rglob("*") if path.is_file() and stage not in path.parents]
    contents = {path.relative_to(source).as_posix(): path.read_bytes() for path in files}
    fill_folder(target / "book", contents, keep=stage.name)
    for name in ("_config.yml", "_toc.yml"):
        write_atomically(target / name, (top / name).read_bytes())
    return target


def _refuse_target(target: Path, *, top: Path) -> None:
    """Refuse a folder whose files are not ours to replace."""
    if target.resolve() == top.resolve():
        raise RunError(
            f"A copy of the book must go beside the clone's own; got into={target}, the clone "
            "itself. Name another folder, or leave --into out."
        )
    try:
        is_other = target.is_dir() and any(target.iterdir()) and not (target / COPY_MARK).is_file()
    except OSError as error:
        raise disk_error(error, path=target, needed_bytes=0) from error
    if is_other:
        raise RunError(
            "A copy of the book must go into an empty folder or over an earlier copy; "
            f"got into={shown(target)}, which holds other files. Name another folder, or empty "
            "this one."
        )


def _read_run(run_dir: Path) -> _Read:
    if run_dir.is_file():
        raise RunError(
            f"A run must be a folder; got run={shown(run_dir)}, a file. "
            f"Name the folder that holds {record.RECORD_NAME}."
        )
    lacks, copied = [], []
    run, results = None, empty_results()
    if not run_dir.is_dir():
        lacks.append("the folder is not there")
    elif not (problem := _not_of_version(run_dir / record.RECORD_NAME, record.RECORD_VERSION)):
        run = record.read_record(run_dir)
        _refuse_other_files(run, run_dir)
        lacks += end_lacking(run)
        copied.append(run_dir / record.RECORD_NAME)
    else:
        lacks.append(problem)
    if not (problem := _not_of_version(run_dir / RESULTS_NAME, SCHEMA_VERSION)):
        results = read_results(run_dir)
        copied.append(run_dir / RESULTS_NAME)
    elif run_dir.is_dir():
        lacks.append(problem)
    lacks += [*notebooks_lacking(run_dir), *sections_lacking(results)]
    executed = _executed(run_dir)
    lacks += [
        f"executed/{name} is of an older source"
        for name, path in executed.items()
        if is_of_older_source(path)
    ]
    return _Read(
        run=run, results=results, lacks=tuple(lacks), copied=tuple(copied), executed=executed
    )


def _not_of_version(path: Path, version: int) -> str:
    """Say why a file of a run cannot be read by this release, or return "" if it can.

    Raises:
        ResultsError: If it is no JSON object.
    """
    if not path.is_file():
        return f"no {path.name}"
    stored = load_json_strict(
        path, what="A run's file", remedy="Remove it and call the command that made the run again."
    )
    found = stored.get("schema_version") if isinstance(stored, dict) else None
    is_another = type(found) is int and found != version
    return f"{path.name} is of version {found}, not {version}" if is_another else ""


def _refuse_other_files(run: record.RunRecord, run_dir: Path) -> None:
    """Refuse files that are there and are not those that the record is about."""
    there = [
        fault
        for fault in record.check_artefacts(run, run_dir)
        if not fault.endswith("is not there")
    ]
    if there:
        raise ResultsError(
            f"A run's files must be those that its record is about; got run={shown(run_dir)}: "
            f"{'; '.join(there)}. Restore the file, or remove it and call the command that made "
            "the run again."
        )


def _executed(run_dir: Path) -> dict[str, Path]:
    """Return the notebooks that a run executed, by name.

    Raises:
        ResultsError: If one is no notebook.
    """
    executed = {name: run_dir / "executed" / name for name in NOTEBOOKS}
    executed = {name: path for name, path in executed.items() if path.is_file()}
    for path in executed.values():
        stored = load_json_strict(
            path, what="An executed notebook", remedy="Remove it and run the chapter again."
        )
        if not isinstance(stored, dict) or not isinstance(stored.get("cells"), list):
            raise ResultsError(
                f"An executed notebook must have cells; got path={shown(path)}. "
                "Remove it and run the chapter again."
            )
    return executed


def _remedy(run_dir: Path, read: _Read) -> str:
    """Return the command that completes a run; a published one is left as it is."""
    profile = read.run.in_force("evaluation.profile") if read.run else None
    name = profile.get("name", "cpu") if isinstance(profile, dict) else "cpu"
    own = run_dir.is_dir() and not run_dir.name.startswith("published-")
    return f"labkit chapter --profile {name}" + (f" --run {shown(run_dir)}" if own else "")


def _pages(run_dir: Path, *, read: _Read, facts: Shown, root: Path | None) -> dict[str, str]:
    """Return the pages of the stage by their file names."""
    pages = {
        "about_this_run.md": describe_run(read.run, read.results, lacks=facts),
        "stored_measurements.md": describe_stored(),
        "notebook_status.md": describe_status(run_dir, read.run, read.results),
        "this_run_and_yours.md": describe_comparison(run_dir, root=root),
    }
    for name in NOTEBOOKS:
        if name in read.executed:
            pages[name] = _noted(read.executed[name], facts=facts)
        else:
            pages[name.replace(".ipynb", ".md")] = _stand_in(name, facts=facts)
    return pages


def _stand_in(name: str, *, facts: Shown) -> str:
    own = json.loads((find_root() / "notebooks" / name).read_text(encoding="utf-8"))
    title = "".join(own["cells"][0]["source"]).splitlines()[0]
    note = facts.note(f"{facts.run} does not have this notebook, `{name}`.")
    return f"{title}\n\n{admonition(note)}"


def _noted(path: Path, *, facts: Shown) -> str:
    """Return an executed notebook, with a note below its title if its source has changed since."""
    text = path.read_text(encoding="utf-8")
    if not is_of_older_source(path):
        return text
    notebook = json.loads(text)
    note = facts.note(
        f"{facts.run} ran an older source of this notebook; what was added since is not here."
    )
    cell = {
        "cell_type": "markdown",
        "id": "older-source",
        "metadata": {},
        "source": admonition(note),
    }
    notebook["cells"].insert(1, cell)
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
