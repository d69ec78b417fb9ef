"""The run record: complete, honest about how the run ended, silent about the machine's names."""

from __future__ import annotations

import copy
import dataclasses
import json
import platform
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support import ROOT, Python, read_cases

from labkit import record
from labkit.errors import ResultsError
from labkit.record import machine
from labkit.record.layers import EFFECTS, STAGES
from labkit.record.model import Artefact

PROFILE = {"name": "quick", "model": "embedded", "revision": None, "dtype": "float16", "steps": 8}
REFUSED = read_cases("records_refused.json")


def start(folder: Path) -> record.RunRecord:
    """Start a record as a command would."""
    return record.start_record(
        folder, command="preservation", profile=PROFILE, parameters_passed={"knobs": ["eager"]}
    )


def finish(folder: Path, failure: BaseException | None = None) -> record.RunRecord:
    """End a record as a run folder would."""
    ended = record.end_record(folder, failure=failure)
    return record.seal_record(folder, ended, files=sorted(folder.glob("made*")))


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, Any]:
    """Return a finished record with a file, as JSON."""
    (tmp_path / "made.txt").write_text("an output")
    start(tmp_path)
    record.observe(tmp_path, observed={"execution.dtype": "float32", "identity.checkpoint": "abc"})
    return finish(tmp_path).to_json()


def test_a_record_reads_back_equal(tmp_path: Path) -> None:
    """What was written is what is read, with the profile in force and what was passed."""
    started = start(tmp_path)

    assert record.read_record(tmp_path) == started
    assert started.status == "started"
    assert started.in_force("evaluation.profile") == PROFILE
    assert started.in_force("evaluation.parameters") == {"knobs": ["eager"]}
    assert started.started_utc.endswith("Z")


def test_what_was_only_asked_for_is_not_in_force(tmp_path: Path) -> None:
    """A request counts for nothing until it was resolved or seen."""
    started = start(tmp_path)
    seen = record.observe(tmp_path, resolved={"execution.dtype": "float16"})

    assert started.stated("execution.dtype").requested == "float16"
    assert started.in_force("execution.dtype") is None
    assert seen.in_force("execution.dtype") == "float16"


def test_every_automatic_change_is_listed(tmp_path: Path) -> None:
    """A value that differs between its stages stands among the changes, an equal one does not."""
    start(tmp_path)
    seen = record.observe(
        tmp_path,
        resolved={"identity.model": "smollm2"},
        observed={"execution.dtype": "float32", "execution.steps": 8},
    )

    assert [(c.field, c.requested, c.resolved, c.observed) for c in seen.changes] == [
        ("identity.model", "embedded", "smollm2", None),
        ("execution.dtype", "float16", None, "float32"),
    ]


def test_a_finished_record_vouches_for_its_files(tmp_path: Path) -> None:
    """Ending sets status, end, seconds and the files' digests, and a changed file is named."""
    made = tmp_path / "made.txt"
    made.write_text("an output")
    start(tmp_path)
    finished = finish(tmp_path)
    (item,) = finished.artefacts

    assert (finished.status, finished.failure) == ("finished", None)
    assert finished.elapsed_s is not None
    assert (item.path, item.size_bytes) == ("made.txt", 9)
    assert record.check_artefacts(finished, tmp_path) == []
    made.write_text("another")
    (fault,) = record.check_artefacts(finished, tmp_path)
    assert fault.startswith(f"artefact made.txt must have sha256={item.sha256}; got ")
    made.unlink()
    assert record.check_artefacts(finished, tmp_path) == ["artefact made.txt is not there"]


def test_a_size_that_is_not_the_files_is_named(tmp_path: Path) -> None:
    """A right digest with a wrong size is a record that was changed."""
    (tmp_path / "made.txt").write_text("an output")
    start(tmp_path)
    finished = finish(tmp_path)
    (item,) = finished.artefacts
    wrong = dataclasses.replace(finished, artefacts=(dataclasses.replace(item, size_bytes=8),))

    assert record.check_artefacts(wrong, tmp_path) == [
        "artefact made.txt must have size_bytes=8; got 9"
    ]


def test_a_file_that_is_listed_twice_is_refused(whole: dict[str, Any]) -> None:
    """A record that vouches twice for one file could vouch for two different ones."""
    whole["artefacts"] *= 2

    with pytest.raises(ResultsError) as refusal:
        record.record_from_json(whole, source="a test")

    assert str(refusal.value) == (
        "A record must not contradict itself: a file is listed once; "
        "got artefacts=made.txt, made.txt in a test."
    )


def test_a_failure_is_recorded_without_the_home_folder(tmp_path: Path) -> None:
    """A failed run keeps its cause, and the cause names no one's home."""
    start(tmp_path)
    failed = finish(tmp_path, OSError(f"no room in {Path.home()}/x"))

    assert failed.status == "failed"
    assert failed.failure == {"type": "OSError", "message": "no room in ~/x"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"observed": {"colour": "red"}}, "no such fields; got colour", id="field"),
        pytest.param({"seen": {}}, "amended by .*; got seen", id="stage"),
        pytest.param(
            {"observed": {"execution.batch_rows": "two"}},
            "execution.batch_rows must be integer; got execution.batch_rows.observed='two'",
            id="type",
        ),
    ],
)
def test_a_wrong_amendment_leaves_the_file(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """An amendment of an unknown field or stage, or of another type, is refused by name."""
    start(tmp_path)
    before = (tmp_path / "record.json").read_bytes()

    with pytest.raises(ResultsError, match=message):
        record.observe(tmp_path, **changes)

    assert (tmp_path / "record.json").read_bytes() == before


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["why"])
def test_a_record_that_is_none_is_refused(case: dict[str, Any], whole: dict[str, Any]) -> None:
    """Other versions, unknown, missing, ill-typed and contradictory fields are named."""
    broken = copy.deepcopy(whole)
    *parents, last = case["at"]
    place = broken
    for key in parents:
        place = place[key]
    if "value" in case:
        place[last] = case["value"]
    else:
        del place[last]

    with pytest.raises(ResultsError) as refusal:
        record.record_from_json(broken, source="a test")

    assert case["message"] in str(refusal.value)


def test_a_torn_record_is_refused(tmp_path: Path) -> None:
    """A file that is no JSON is refused with its name and what to do."""
    for text in (
        "{",
        '{"schema_version": NaN}',
        '{"id": "a", "id": "b"}',
        '{"id": 1e999}',
        "[" * 9999,
    ):
        (tmp_path / "record.json").write_text(text)

        with pytest.raises(ResultsError, match="must be JSON; got path="):
            record.read_record(tmp_path)


def test_the_schema_is_the_classes(whole: dict[str, Any]) -> None:
    """The schema in the package is the one that the classes stand for, and accepts a record."""
    stored = record.load_record_schema()
    Draft202012Validator.check_schema(stored)
    Draft202012Validator(stored).validate(whole)

    assert stored == record.make_record_schema()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "none", "finished"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_reader_accepts_nothing_that_the_schema_refuses(data: st.DataObject) -> None:
    """Wherever a record is changed, the reader is at least as strict as the schema."""
    stored = copy.deepcopy(_EXAMPLE)
    place: Any = stored
    keys: list[str] = []
    while isinstance(place, dict) and place and (not keys or data.draw(st.booleans())):
        keys.append(data.draw(st.sampled_from(sorted(place))))
        parent, place = place, place[keys[-1]]
    parent[keys[-1]] = data.draw(_JSON)
    try:
        record.record_from_json(stored, source="a test")
    except ResultsError:
        return

    assert list(Draft202012Validator(record.load_record_schema()).iter_errors(stored)) == []


_EXAMPLE = json.loads((ROOT / "results/published-quick/record.json").read_text("utf-8"))


def test_each_field_says_what_a_difference_means() -> None:
    """Every field of every layer has a known effect, types and a description."""
    fields = record.fields_of_layers().values()

    assert {info.effect for info in fields} == set(EFFECTS)
    assert all(info.what and info.holds for info in fields)
    assert STAGES == ("requested", "resolved", "observed")


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
    found = record.substrate()

    assert device["cores"]
    assert device["memory_bytes"] > 2**28
    assert platform.machine() in device["system"]
    assert found["substrate.torch"]
    assert found["substrate.packages"]["labkit"]


def test_describing_the_device_does_not_load_torch(python: Python) -> None:
    """The device is described without torch; what only torch knows is then not recorded."""
    code = """
import sys
from labkit.record import describe_device, substrate
assert describe_device()["threads"] is None
assert "substrate.accelerator" not in substrate()
assert "torch" not in sys.modules
import types
sys.modules["torch"] = types.SimpleNamespace(
    get_num_threads=lambda: 3, version=types.SimpleNamespace(cuda=None))
assert substrate()["substrate.accelerator"] == "none"
assert substrate()["substrate.threads"] == 3
"""
    done = python(code)

    assert done.returncode == 0, done.stderr


def test_a_replay_bundle_holds_what_went_in_and_came_out(tmp_path: Path) -> None:
    """Prompts, outputs and traces are lines of JSON, and the environment names every package."""
    folder = record.write_replay(
        tmp_path,
        prompts=[{"name": "a", "ids": [1, 2]}],
        outputs=[{"name": "a", "ids": [3]}],
        traces=[{"name": "a", "margins": [0.5]}],
    )

    assert json.loads((folder / "outputs.jsonl").read_text()) == {"name": "a", "ids": [3]}
    assert "torch" in json.loads((folder / "environment.json").read_text())["packages"]
    with pytest.raises(ResultsError, match=r"traces.jsonl .*; got .*margins.* line 1"):
        record.write_replay(tmp_path, prompts=[], outputs=[], traces=[{"margins": [float("nan")]}])


def test_the_commit_is_read_with_what_differs_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside git and before the first commit there is none; then its id, and if a file differs."""

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.setattr(machine, "find_root", lambda: tmp_path)
    assert machine.read_commit() is None
    git("init", "-q")
    assert machine.read_commit() is None
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-qm", "one")
    commit = git("rev-parse", "HEAD")
    (tmp_path / "untracked").write_text("1")
    assert machine.read_commit() == {"id": commit, "dirty": False}
    (tmp_path / "a").write_text("2")
    assert machine.read_commit() == {"id": commit, "dirty": True}


def test_versions_are_a_copy_each_time() -> None:
    """Whoever takes a version out of what was returned takes it from no later record."""
    first = machine.package_versions()
    first.clear()

    assert "numpy" in machine.package_versions()


def test_records_are_read_without_the_mail_parser() -> None:
    """What only reads records does not load the standard library's package metadata."""
    code = "import sys, labkit.record; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_a_file_whose_name_cannot_be_is_a_fault(tmp_path: Path) -> None:
    """A record that vouches for a name no file can have is answered, and not with a traceback."""
    item = Artefact(path=300 * "a", sha256=64 * "0", size_bytes=1)
    vouching = dataclasses.replace(start(tmp_path), artefacts=(item,))

    assert record.check_artefacts(vouching, tmp_path) == [
        f"artefact {item.path} cannot be read: File name too long"
    ]
