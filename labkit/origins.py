"""Where a figure's numbers come from, in one line that leads to the page that says it in full."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from labkit import record
from labkit.files import data_file, sha256_of, shown
from labkit.results import read_results
from labkit.staged import ABOUT, STORED, read_shown, staged_record, staged_results

_SHORT = 12  # characters of a digest or commit: enough to find it, few enough to read
RUN = "run"

Link = Callable[[str, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A run or a stored file that numbers come from.

    Attributes:
        name: What the link says.
        page: The page that describes it, without its ending.
        anchor: The place on that page, or "".
        facts: What it ran on and when, a phrase each.
    """

    name: str
    page: str
    anchor: str
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of measurements that is the same for every run of the book.

    Attributes:
        key: A short name, and the anchor on the page of stored measurements.
        path: The file.
        made_by: The command that makes it.
        shown_on: What of the book is made from it.
        section: The section whose notebook reads it, or "" where a page of the book does.
    """

    key: str
    path: Path
    made_by: str
    shown_on: str
    section: str = ""


def stored_files() -> dict[str, StoredFile]:
    """Return the files of stored measurements by their keys."""
    files = [
        StoredFile(
            key="verdicts",
            path=data_file("verdicts", "verdicts.json"),
            made_by="make verdicts",
            shown_on="the verdict benchmark",
        ),
        StoredFile(
            key="stacks",
            path=data_file("stacks", "another_stack", record.RECORD_NAME),
            made_by="labkit preservation --profile stacks --table stacks "
            "--run results/another_stack",
            shown_on="the same weights on llama.cpp",
        ),
        StoredFile(
            key="families",
            path=data_file("families", "gemma3-270m", record.RECORD_NAME),
            made_by="labkit preservation --profile gemma3-270m --run results/gemma3-270m",
            shown_on="the preservation table on Gemma 3",
        ),
        StoredFile(
            key="releases",
            path=data_file("fallbacks", "matrix.json"),
            made_by="labkit fallbacks --matrix",
            shown_on="the probes on several releases, and on llama.cpp",
            section="fallbacks",
        ),
        *(
            StoredFile(
                key=f"outputs-{name}",
                path=data_file("outputs", name, record.RECORD_NAME),
                made_by=f"labkit outputs {name}",
                shown_on=f"outputs to be scored, {name}",
                section="from_text_to_score",
            )
            for name in ("float32", "int8")
        ),
    ]
    return {file.key: file for file in files}


def origin_of(key: str, *, stage: Path) -> Origin:
    """Return the run that a stage is of, for the key `run`, or a stored file by its key."""
    return _run_origin(stage) if key == RUN else _file_origin(stored_files()[key])


def line_html(origins: Sequence[Origin], *, link: Link, beside: Sequence[Origin] = ()) -> str:
    """Return one line that names origins and leads to them.

    Args:
        origins: The origins.
        link: Turns a page and an anchor into an address relative to the page being written.
        beside: What was read as well: named without its facts, which its page has.
    """
    parts = [
        " · ".join([_named(origin, link=link), *map(escape, origin.facts)]) for origin in origins
    ]
    parts += [_named(origin, link=link) for origin in beside]
    return f'<p class="labkit-origin">From {"; with ".join(parts)}</p>'


def _named(origin: Origin, *, link: Link) -> str:
    return f'<a href="{escape(link(origin.page, origin.anchor))}">{escape(origin.name)}</a>'


def read_by(notebook: str) -> list[str]:
    """Return the keys of the stored files that a notebook reads, `06_from_text_to_score`, say."""
    section = notebook.partition("_")[2]
    return [key for key, file in stored_files().items() if file.section == section]


def facts_of(run: record.RunRecord) -> Iterator[str]:
    """Yield what a reader wants to know of a run first: size, device, versions, digest, commit."""
    profile = run.in_force("evaluation.profile")
    if isinstance(profile, dict):
        yield f"profile {profile.get('name')}"
    device = run.in_force("execution.device") or run.stated("execution.device").requested
    machine = [device, run.in_force("substrate.processor"), run.in_force("substrate.accelerator")]
    yield (
        ", ".join(str(part) for part in machine if part and part != "none") or "device not recorded"
    )
    for package in ("torch", "transformers"):
        if version := run.in_force(f"substrate.{package}"):
            yield f"{package} {version}"
    yield f"artefact {record.identify(run).sha256[:_SHORT]}"
    commit = run.in_force("evaluation.harness")
    if isinstance(commit, dict) and isinstance(commit.get("id"), str):
        yield f"commit {commit['id'][:_SHORT]}" + (" and local changes" if commit["dirty"] else "")
    yield run.finished_utc or f"{run.status} {run.started_utc}"


def _run_origin(stage: Path) -> Origin:
    run = staged_record(stage)
    if run:
        return Origin(name=f"run {run.id}", page=ABOUT, anchor="", facts=tuple(facts_of(run)))
    stored = staged_results(stage)["run"].get("id")
    name = f"run {stored or read_shown(stage).run}"
    return Origin(name=name, page=ABOUT, anchor="", facts=("no record of it was kept",))


def _file_origin(file: StoredFile) -> Origin:
    facts = (*versions_of(file), f"SHA-256 {sha256_of(file.path)[:_SHORT]}")
    return Origin(name=shown(file.path), page=STORED, anchor=file.key, facts=facts)


def versions_of(file: StoredFile) -> tuple[str, ...]:
    """Return what a stored file says of the versions, the machine and the time it was made with."""
    if file.path.name == record.RECORD_NAME:
        return tuple(facts_of(record.read_record(file.path)))
    if file.key == "stacks":
        return tuple(_facts_of_old_summary(read_results(file.path)["run"]))
    stored = json.loads(file.path.read_text(encoding="utf-8"))
    if columns := [*stored.get("releases", ()), *stored.get("others", ())]:
        return tuple(
            f"{column.get('library', stored['library'])} {column['release']}, "
            f"asked {column['asked_utc']}"
            for column in columns
        )
    versions = (f"{name} {version}" for name, version in stored["versions"].items())
    return (*versions, stored["processor"], *_stored_in_commit(file.path))


def _stored_in_commit(path: Path) -> Iterator[str]:
    """Yield when a file that states no time of its own was committed, where git knows."""
    command = ["git", "log", "-1", "--format=stored %cs in commit %h", "--", path.name]
    try:
        done = subprocess.run(
            command, cwd=path.parent, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    if line := done.stdout.strip():
        yield line


def _facts_of_old_summary(run: dict[str, Any]) -> Iterator[str]:
    """Yield the facts of a run whose results say in short what records now say in full."""
    packages, device = run.get("packages", {}), run.get("device", {})
    yield f"run {run['id']}"
    if processor := device.get("processor") or device.get("cpu") or device.get("kind"):
        yield str(processor)
    for name in ("torch", "transformers", "llama-cpp-python"):
        if name in packages:
            yield f"{name} {packages[name]}"
    if digest := (run.get("model") or {}).get("digest"):
        yield f"checkpoint {digest[:_SHORT]}"
    if commit := run.get("commit"):
        yield f"commit {commit['id'][:_SHORT]}" + (" and local changes" if commit["dirty"] else "")
    if ended := run.get("finished_utc"):
        yield ended
