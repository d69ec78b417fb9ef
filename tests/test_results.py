"""The run folder and its results.json: atomic, checked, held by one process."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Python, read_cases

from labkit.errors import ResultsError, RunError
from labkit.files import first_not_finite
from labkit.record import check_artefacts, read_record
from labkit.results import (
    OWNER_VARIABLE,
    SECTIONS,
    RunFolder,
    empty_results,
    load_schema,
    read_results,
    recorded_run,
    row_names,
)

ADMISSION = {"rows": [], "summary": {"cases": 0}, "elapsed_s": 0.5}
HOLD = """
import sys, time
from labkit.results import RunFolder
with RunFolder(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_section_is_read_back_and_the_others_stay(tmp_path: Path) -> None:
    """A written section reads back equal, and a second one leaves the first alone."""
    with RunFolder(tmp_path) as folder:
        folder.write_section("admission", ADMISSION)
        folder.write_section("fallbacks", {**ADMISSION, "elapsed_s": 2.0})

    stored = read_results(tmp_path)
    assert stored["admission"] == ADMISSION
    assert stored["fallbacks"]["elapsed_s"] == 2.0
    assert stored["fingerprints"] is None


def test_an_unknown_section_is_refused(tmp_path: Path) -> None:
    """A section that the schema does not have is refused by name, and nothing is written."""
    with RunFolder(tmp_path) as folder, pytest.raises(ResultsError, match="section='other'"):
        folder.write_section("other", ADMISSION)

    assert not (tmp_path / "results.json").exists()


@pytest.mark.parametrize("case", read_cases("results_refused.json"), ids=lambda case: case["why"])
def test_broken_results_are_refused_with_the_place(case: dict, tmp_path: Path) -> None:
    """Each file that is no results file of this version is refused, naming what and where."""
    file = tmp_path / "results.json"
    file.write_text(case.get("text") or json.dumps({**empty_results(), **case["merge"]}))

    with pytest.raises(ResultsError) as refusal:
        read_results(file)

    assert case["message"] in str(refusal.value)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    """A folder without results is refused with the command that makes some."""
    with pytest.raises(ResultsError, match="labkit chapter"):
        read_results(tmp_path / "results.json")


def test_the_schema_itself_is_valid_and_knows_every_section() -> None:
    """The schema is valid, its keys are the sections, and their rows have names."""
    from jsonschema import Draft202012Validator

    schema = load_schema()
    Draft202012Validator.check_schema(schema)

    assert set(schema["properties"]) == {"schema_version", "run", *SECTIONS}
    assert list(row_names()) == list(SECTIONS)


def test_a_section_that_a_file_lacks_was_not_measured(tmp_path: Path) -> None:
    """A file from before a section was added is read, and that section is None."""
    (tmp_path / "results.json").write_text('{"schema_version": 1, "run": {"id": "old"}}')
    found = read_results(tmp_path)

    assert found == empty_results() | {"run": {"id": "old"}}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_named_by_its_path(tmp_path: Path, value: float) -> None:
    """NaN and infinities never reach the file; the message says where the number stood."""
    section = {**ADMISSION, "summary": {"a": [1.0, {"b": value}]}}

    with RunFolder(tmp_path) as folder, pytest.raises(ResultsError) as refusal:
        folder.write_section("admission", section)

    assert f"$.admission.summary.a[1].b = {value}" in str(refusal.value)
    assert not (tmp_path / "results.json").exists()


def test_finite_values_have_no_such_place() -> None:
    """The search for NaN finds nothing in ordinary values, texts among them."""
    assert first_not_finite({"a": [1, 2.5, "nan", None, True]}) is None


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """When the disk fills up the old results stay, the error has the bytes, no scrap is left."""
    with RunFolder(tmp_path) as folder:
        folder.write_section("admission", ADMISSION)
        before = folder.results_path.read_bytes()

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, call, full)
        with pytest.raises(RunError, match=r"needed_bytes=\d+, free_bytes=\d+") as refusal:
            folder.write_section("fallbacks", ADMISSION)

        assert "results.json" in str(refusal.value)
        assert folder.results_path.read_bytes() == before
        assert not list(tmp_path.glob(".*part"))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file in the way of the run folder is refused with its path and what to do about it."""
    (tmp_path / "file").write_text("")

    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RunError, match="must stand in a folder, and a file is in its way"):
            RunFolder(path)


def test_a_second_process_is_refused_with_the_holder(tmp_path: Path) -> None:
    """While a process holds a run folder another is refused, and told the holder's id."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            with pytest.raises(RunError, match=f"held by pid={holder.pid}"):
                RunFolder(tmp_path)
        finally:
            holder.send_signal(signal.SIGKILL)

    with RunFolder(tmp_path) as folder:
        assert not folder.joined


def test_a_notebook_joins_the_folder_of_its_chapter(
    tmp_path: Path, python: Python, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child of the process that holds the folder may write; it leaves the record alone."""
    code = """
import sys
from labkit.results import recorded_run
with recorded_run(sys.argv[1], command="admission", profile={"name": "quick"}) as folder:
    folder.write_section("admission", {"rows": [], "summary": {}, "elapsed_s": 1})
"""
    with RunFolder(tmp_path) as folder:
        refused = python(code, str(tmp_path))
        monkeypatch.setenv(OWNER_VARIABLE, str(os.getpid()))
        joined = python(code, str(tmp_path))

        assert refused.returncode == 1
        assert "RunError" in refused.stderr
        assert joined.returncode == 0, joined.stderr
        assert folder.read()["admission"]["elapsed_s"] == 1
        assert not (tmp_path / "record.json").exists()


def test_a_run_is_recorded_before_during_and_after(tmp_path: Path) -> None:
    """The record says started while the run goes on, and finished after it, in both files."""
    with recorded_run(tmp_path, command="admission", profile={"name": "quick"}) as folder:
        assert read_record(tmp_path).status == "started"
        assert folder.read()["run"]["status"] == "started"
        folder.observe(observed={"identity.prompts": "abc"})

    run = read_results(tmp_path)["run"]
    assert run["status"] == "finished"
    assert run["profile"] == "quick"
    assert run["prompts_digest"] == "abc"
    (made,) = read_record(tmp_path).artefacts
    assert made.path == "results.json"
    assert check_artefacts(read_record(tmp_path), tmp_path) == []


def test_a_failed_run_is_recorded_with_its_cause(tmp_path: Path) -> None:
    """What ended a run stands in its record, and the exception goes on."""
    with (
        pytest.raises(RuntimeError, match="broke"),
        recorded_run(tmp_path, command="admission", profile={"name": "quick"}),
    ):
        raise RuntimeError("it broke")

    failed = read_record(tmp_path)
    assert failed.status == "failed"
    assert failed.failure == {"type": "RuntimeError", "message": "it broke"}
    assert read_results(tmp_path)["run"]["status"] == "failed"


def test_a_run_killed_while_it_writes_leaves_a_valid_file(tmp_path: Path) -> None:
    """A process killed in a loop of writes leaves results that the schema accepts."""
    code = """
import sys
from labkit.results import RunFolder
with RunFolder(sys.argv[1]) as folder:
    for number in range(100000):
        section = {"rows": [], "summary": {"n": "x" * 50000}, "elapsed_s": number}
        folder.write_section("admission", section)
        if number == 2:
            print("writing", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.kill()

    assert read_results(tmp_path)["admission"]["elapsed_s"] >= 2
    with RunFolder(tmp_path):
        assert not list(tmp_path.glob(".*.part")), "what was half-written is swept away"


@pytest.mark.parametrize("spoil", [lambda text: text, lambda text: json.dumps(json.loads(text))])
def test_the_end_changes_the_summary_alone(tmp_path: Path, spoil: Callable[[str], str]) -> None:
    """A run's end rewrites its summary and no section, in our layout and in any other."""
    with RunFolder(tmp_path) as folder:
        folder.start(command="admission", profile={"name": "quick"})
        folder.write_section("admission", ADMISSION)
        folder.results_path.write_text(spoil(folder.results_path.read_text("utf-8")), "utf-8")
        before = folder.results_path.read_text("utf-8")
        folder.finish()
        after = folder.results_path.read_text("utf-8")
        folder.write_run(read_record(tmp_path))

        assert after == folder.results_path.read_text("utf-8")
    started, ended = json.loads(before), json.loads(after)
    assert (started.pop("run")["status"], ended.pop("run")["status"]) == ("started", "finished")
    assert started == ended
