"""Build the book from one run: stage its notebooks, then call Jupyter Book."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from labkit import record
from labkit.errors import ResultsError, RunError
from labkit.files import find_root, shown, write_atomically
from labkit.results import NOTEBOOKS, RESULTS_NAME, SECTIONS, read_results, resolve_run_dir

PUBLISHED = "results/published-cpu"
STAGE = "book/run"
SITE = "_build/html"
_FIRST_PAGE = "book/intro.html"
# Jupyter Book's own names no icon, so that a browser asks the host for one that is not there;
# a file named here would be asked for and dropped again, as the page is left at once.
_POINTER = f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Architecture or runtime?</title>
<link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0; url={_FIRST_PAGE}">
</head>
<body><p><a href="{_FIRST_PAGE}">To the first page</a></p></body>
</html>
"""
_LOG_LINES = 30
# The package has no __main__, and a script on PATH may belong to another environment.
_CALL = "from jupyter_book.cli.main import main; main()"


def choose_run(run: str | Path | None = None, *, root: Path | None = None) -> Path:
    """Return the run that the book shows: the one named, your last finished, the published."""
    if run:
        return resolve_run_dir(run)
    top = root or find_root()
    own = {}
    for folder in sorted((top / "results").glob("*")):
        if not folder.name.startswith("published-") and (folder / record.RECORD_NAME).is_file():
            own[folder] = _finished_utc(folder)
    return max((folder for folder in own if own[folder]), key=own.__getitem__, default=None) or (
        top / PUBLISHED
    )


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
    status = record.read_record(run_dir).status
    lacks = [] if status == "finished" else [f"status={status!r} in place of 'finished'"]
    lacks += [
        f"no executed/{name}" for name in NOTEBOOKS if not (run_dir / "executed" / name).is_file()
    ]
    has_results = (run_dir / RESULTS_NAME).is_file()
    results = read_results(run_dir) if has_results else dict.fromkeys(SECTIONS)
    missing = [name for name in SECTIONS if results[name] is None]
    if missing:
        lacks.append(f"no section{'s' if missing[1:] else ''} {', '.join(missing)}")
    return lacks


def stage_run(run_dir: Path, *, root: Path | None = None) -> Path:
    """Copy a run's notebooks, results and a page about the run to where the book reads them.

    Raises:
        RunError: If the run lacks a notebook or a section, or did not end well; each is named,
            and what was staged before stays.
        ResultsError: If its results or its record cannot be read.
    """
    executed = sorted(run_dir.glob("executed/[0-9][0-9]_*.ipynb"))
    notebooks = [path for path in executed if not path.name.endswith(".failed.ipynb")]
    if not notebooks:
        raise RunError(
            f"The book must show a run with executed notebooks; got run={shown(run_dir)} without "
            "any. Make one with `labkit chapter --profile quick`."
        )
    if lacks := lacks_of(run_dir):
        raise RunError(
            f"The book must show a whole run; got run={shown(run_dir)} with {'; '.join(lacks)}. "
            "Call `labkit chapter` on that folder again: what is finished is kept."
        )
    page = describe_run(record.read_record(run_dir), read_results(run_dir))
    stage = (root or find_root()) / STAGE
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    for path in notebooks:
        shutil.copyfile(path, stage / path.name)
    shutil.copyfile(run_dir / RESULTS_NAME, stage / RESULTS_NAME)
    write_atomically(stage / "about_this_run.md", page)
    return stage


def copy_source(target: Path, *, root: Path | None = None) -> Path:
    """Copy the book's pages and settings, so that another run can be built beside one's own.

    Args:
        target: The folder; what a copy before left there is replaced.
        root: The clone.
    """
    top = root or find_root()
    target.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target / "book", ignore_errors=True)
    shutil.copytree(top / "book", target / "book", ignore=shutil.ignore_patterns("run"))
    for name in ("_config.yml", "_toc.yml"):
        shutil.copyfile(top / name, target / name)
    return target


_LAYERS = {
    "identity": "What was evaluated",
    "substrate": "Below it",
    "execution": "How it was computed",
    "evaluation": "How it was judged",
}


def describe_run(run: record.RunRecord, results: Mapping[str, object]) -> str:
    """Return the page that says where a run's numbers come from."""
    facts = {
        "Run": run.id,
        "Status": run.status,
        "Started (UTC)": run.started_utc,
        "Seconds": run.elapsed_s,
        "Identity of the artefact": record.identify(run).sha256,
    }
    changed = {
        change.field: f"asked for {_cell(change.requested)}, resolved to {_cell(change.resolved)}, "
        f"seen {_cell(change.observed)}"
        for change in run.changes
    }
    timings = {name: _elapsed(results.get(name)) for name in SECTIONS}
    layers = (_table(title, _in_force(run, layer=layer)) for layer, title in _LAYERS.items())
    parts = [
        "# About this run\n\nEvery measured number of these pages comes from the run below. A dash "
        "stands for what was not recorded.\n",
        _table("Run", facts),
        *layers,
        _table("Changed on the way from the request to the live object", changed),
        _table("Seconds by experiment", timings),
    ]
    return "\n".join(parts)


def _in_force(run: record.RunRecord, *, layer: str) -> dict[str, object]:
    """Return a layer's fields with the values that counted."""
    stated = (name for name, _ in run.all_stated() if name.startswith(f"{layer}."))
    return {name.partition(".")[2]: run.in_force(name) for name in stated}


def _elapsed(section: object) -> object:
    return section.get("elapsed_s") if isinstance(section, Mapping) else None


def _table(title: str, rows: Mapping[str, object]) -> str:
    """Return a MyST section with a table of two columns."""
    head = f"## {title}\n\n| What | Value |\n|---|---|\n"
    named = ((key.replace("_", " "), _cell(value)) for key, value in rows.items())
    return head + "".join(f"| {name} | {value} |\n" for name, value in named)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_cell(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value) or "none"
    return str(value).replace("|", "\\|")


def build_book(*, root: Path | None = None) -> Path:
    """Build the site; a warning fails it.

    Returns:
        The site's first page.

    Raises:
        RunError: If the build fails, with its warnings and the end of its log.
    """
    top = root or find_root()
    # Sphinx warns, and so fails, where a file of ours has changed since the site was built last.
    for path in (top / "book/_static").glob("*"):
        (top / SITE / "_static" / path.name).unlink(missing_ok=True)
    flags = ["--all", "-W", "-n", "--keep-going"]
    command = [sys.executable, "-c", _CALL, "build", ".", *flags]
    done = subprocess.run(
        command, cwd=top, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    page = top / SITE / "index.html"
    if done.returncode or not page.is_file():
        raise RunError(
            f"The book must build without a warning; the build ended with "
            f"status={done.returncode}.\n{_worst_lines(done.stdout)}\n"
            "Mend what it names and call `labkit book` again."
        )
    write_atomically(page, _POINTER)
    return page


def _worst_lines(log: str) -> str:
    """Return a build's warnings and errors, then the end of its log."""
    lines = log.splitlines()
    named = [line for line in lines if "WARNING" in line or "ERROR" in line]
    return "\n".join([*named, "The log ends:", *lines[-_LOG_LINES:]])
