"""The published runs: whole, made from a commit, of these notebooks, without a machine's traces."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sections import least_section
from support import ROOT

from labkit.book import lacks_of
from labkit.errors import ResultsError
from labkit.record import check_artefacts, read_measured, read_record
from labkit.results import NOTEBOOKS, SECTIONS, read_results, recorded_run

PROMISED = ("published-cpu", "published-quick")
RUNS = sorted({*PROMISED, *(path.name for path in (ROOT / "results").glob("published-*"))})
# A folder of some machine, but not the end of a longer path or address.
MACHINE = re.compile(r"(?<![\w.~-])/(?:home|root|work|tmp|Users|var|opt|mnt|usr)/[\w.-]")
LOCAL = (".lock", "chapter.json")  # not committed


def is_whole(folder: Path) -> list[str]:
    """The record, each section and each executed notebook are there, and follow their schemas."""
    try:
        return lacks_of(folder)
    except ResultsError as error:
        return [str(error)]


def is_of_a_commit(folder: Path) -> list[str]:
    """The run was made from a commit, without local changes."""
    commit = read_record(folder).in_force("evaluation.harness")
    clean = isinstance(commit, dict) and commit["dirty"] is False
    return [] if clean else [f"commit={commit}"]


def is_of_these_files(folder: Path) -> list[str]:
    """The files are those whose digests the record holds."""
    return check_artefacts(read_record(folder), folder)


def names_no_machine(folder: Path) -> list[str]:
    """No file names a folder of one machine."""
    faults = []
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".json", ".jsonl", ".ipynb", ".yaml") and path.name not in LOCAL:
            text = path.read_text(encoding="utf-8")
            found = {match[0] for match in MACHINE.finditer(text)}
            found |= {place for place in (str(ROOT), str(Path.home())) if f"{place}/" in text}
            faults += [f"{path.name} names {place}…" for place in sorted(found)]
    return faults


def is_of_these_notebooks(folder: Path) -> list[str]:
    """The executed sources are those of the notebooks, but for the parameters put in."""
    faults = []
    for name in NOTEBOOKS:
        executed = sources(folder / "executed" / name)
        if executed != sources(ROOT / "notebooks" / name):
            faults.append(f"{name} was executed from another source")
    return faults


def sources(path: Path) -> list[tuple[str, str]]:
    """Return the kinds and sources of a notebook's cells, without what papermill put in."""
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        (cell["cell_type"], "".join(cell["source"]))
        for cell in cells
        if "injected-parameters" not in cell["metadata"].get("tags", [])
    ]


RULES = (is_whole, is_of_a_commit, is_of_these_files, names_no_machine, is_of_these_notebooks)
Rule = Callable[[Path], list[str]]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", RUNS)
def test_a_published_run_keeps_the_rule(name: str, rule: Rule) -> None:
    """Each published run is there and keeps each rule."""
    folder = ROOT / "results" / name
    assert folder.is_dir(), f"results/{name} is not there: publish that run"

    assert rule(folder) == []


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run that keeps every rule."""
    commit = {"id": "a" * 40, "dirty": False}
    monkeypatch.setattr("labkit.record.machine.read_commit", lambda: commit)
    folder = tmp_path / "run"
    with recorded_run(folder, command="chapter", profile={"name": "quick"}) as held:
        for name in SECTIONS:
            held.write_section(name, least_section(name, elapsed_s=1.0))
        (folder / "executed").mkdir()
        for name in NOTEBOOKS:
            shutil.copyfile(ROOT / "notebooks" / name, folder / "executed" / name)
    return folder


def test_a_made_up_run_keeps_every_rule(made_up: Path) -> None:
    """The run that the next test breaks keeps every rule."""
    assert [rule(made_up) for rule in RULES] == [[]] * len(RULES)


@pytest.mark.parametrize(
    ("rule", "file", "old", "new"),
    [
        pytest.param(is_whole, "record.json", '"finished"', '"failed"', id="failed"),
        pytest.param(is_whole, "results.json", '"elapsed_s": 1.0', '"elapsed_s": "1"', id="schema"),
        pytest.param(is_of_a_commit, "record.json", '"dirty": false', '"dirty": true', id="dirty"),
        pytest.param(is_of_these_files, "results.json", '"elapsed_s": 1.0', "", id="digest"),
        pytest.param(names_no_machine, "record.json", '"quick"', '"/home/me/quick"', id="record"),
        pytest.param(
            names_no_machine, "executed/04_admission.ipynb", "## Overview", "/tmp/x.py", id="copy"
        ),
        pytest.param(
            is_of_these_notebooks, "executed/01_fingerprints.ipynb", "section", "part", id="source"
        ),
    ],
)
def test_each_rule_can_fail(made_up: Path, rule: Rule, file: str, old: str, new: str) -> None:
    """Break the run in one place and the rule for it says so."""
    path = made_up / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")

    assert rule(made_up) != []


@pytest.mark.parametrize("read", [read_results, read_record, read_measured])
def test_a_run_is_read_by_a_path_or_its_text(read: Callable[[str | Path], object]) -> None:
    """A reader of runs takes what a user types, and finds the same in it."""
    folder = ROOT / "results" / "published-cpu"

    assert read(str(folder)) == read(folder)
