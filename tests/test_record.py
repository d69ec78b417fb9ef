"""The run record: complete, honest about how the run ended, silent about the machine's names."""

from __future__ import annotations

import json
import platform
import socket
from pathlib import Path

import pytest
from support import ROOT, Python

from labkit import record
from labkit.errors import ResultsError


def start(folder: Path) -> record.RunRecord:
    """Start a record as a command would."""
    return record.start_record(
        folder,
        command="preservation",
        profile={"name": "quick", "model": "embedded", "revision": None},
        parameters_passed={"knobs": ["eager"]},
        seeds={"torch": 7},
    )


def test_a_record_reads_back_equal(tmp_path: Path) -> None:
    """What was written is what is read, with the profile in force and what was passed."""
    started = start(tmp_path)

    assert record.read_record(tmp_path) == started
    assert started.status == "started"
    assert started.profile["name"] == "quick"
    assert started.parameters_passed == {"knobs": ["eager"]}
    assert started.seeds == {"torch": 7}
    assert started.started_utc.endswith("Z")


def test_a_finished_record_has_its_time(tmp_path: Path) -> None:
    """Finishing sets the status, the end and the seconds, and keeps all else."""
    started = start(tmp_path)
    finished = record.finish_record(tmp_path)

    assert (finished.status, finished.failure) == ("finished", None)
    assert finished.elapsed_s is not None
    assert finished.elapsed_s >= 0
    assert finished.packages == started.packages


def test_a_failure_is_recorded_without_the_home_folder(tmp_path: Path) -> None:
    """A failed run keeps its cause, and the cause names no one's home."""
    start(tmp_path)
    failed = record.finish_record(tmp_path, failure=OSError(f"no room in {Path.home()}/x"))

    assert failed.failure == {"type": "OSError", "message": "no room in ~/x"}


def test_what_is_learned_later_is_added(tmp_path: Path) -> None:
    """A digest that is known only once the model is loaded joins the record."""
    start(tmp_path)
    record.amend_record(tmp_path, model={"name": "embedded", "digest": "abc"})

    assert record.read_record(tmp_path).model["digest"] == "abc"


def test_a_field_that_no_record_has_is_refused(tmp_path: Path) -> None:
    """An amendment of an unknown field is refused by name, and the file stays."""
    start(tmp_path)
    before = (tmp_path / "record.json").read_bytes()

    with pytest.raises(ResultsError, match="no such fields; got colour"):
        record.amend_record(tmp_path, colour="red")

    assert (tmp_path / "record.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"schema_version": 2}, "got schema_version=2", id="version"),
        pytest.param({"status": "done"}, "got status='done'", id="status"),
        pytest.param({"host": "x"}, "got host in", id="unknown-field"),
    ],
)
def test_a_record_of_another_shape_is_refused(tmp_path: Path, change: dict, message: str) -> None:
    """A record of another version, with another status or other fields is refused by name."""
    start(tmp_path)
    file = tmp_path / "record.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))

    with pytest.raises(ResultsError, match=message):
        record.read_record(tmp_path)


def test_a_record_without_a_field_is_refused() -> None:
    """A record that lacks a field is refused, and the field is named."""
    with pytest.raises(ResultsError, match=r"missing.*'python'"):
        record.record_from_json(
            {
                "schema_version": 1,
                "id": "a",
                "status": "started",
                "command": "chapter",
                "started_utc": "",
                "profile": {},
                "packages": {},
                "device": {},
            },
            source="a test",
        )


def test_a_torn_record_is_refused(tmp_path: Path) -> None:
    """A file that is no JSON is refused with its name and what to do."""
    (tmp_path / "record.json").write_text("{")

    with pytest.raises(ResultsError, match="must be JSON; got path="):
        record.read_record(tmp_path)


def test_a_record_names_no_host_and_no_folder(tmp_path: Path) -> None:
    """Neither the host's name nor a path of this machine stands in a record."""
    start(tmp_path)
    text = (tmp_path / "record.json").read_text()

    assert socket.gethostname() not in text
    assert str(ROOT) not in text
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text


def test_the_device_and_the_versions_are_filled_in() -> None:
    """The record says what computed and which releases, from the machine and not from a file."""
    device = record.describe_device()

    assert device["cores"]
    assert device["memory_bytes"] > 2**28
    assert platform.machine() in device["system"]
    assert record.package_versions()["labkit"]


def test_describing_the_device_does_not_load_torch(python: Python) -> None:
    """The device is described without torch; once torch is loaded its threads are told."""
    code = """
import sys
from labkit.record import describe_device
assert describe_device()["threads"] is None
assert "torch" not in sys.modules
"""
    done = python(code)

    assert done.returncode == 0, done.stderr


def test_a_change_makes_the_commit_dirty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracked file that differs from its commit is told as dirty; outside git there is none."""
    answers = {"rev-parse": "abc", "status": " M labkit/spec.py"}
    monkeypatch.setattr(record, "_git", lambda *arguments: answers[arguments[0]])
    assert record.read_commit() == {"id": "abc", "dirty": True}

    answers["status"] = ""
    assert record.read_commit() == {"id": "abc", "dirty": False}

    monkeypatch.undo()
    monkeypatch.setattr(record, "find_root", lambda: tmp_path)
    assert record.read_commit() is None
