"""The process that answers for a release, however it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import planted_release
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import LabError, ReleaseError
from labkit.experiments import _release_asking
from labkit.experiments._release_environment import (
    ReleaseEnvironment,
    make_environment,
    own_environment,
)

DIES_OF = "quantised_load_without_backend"
ANSWERS = "misspelt_generation_option"
FAILS = "flash_attention_not_installed"


@pytest.mark.usefixtures("release_cache")
def test_a_planted_release_is_asked_in_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are the stub's, whatever path the caller set; a death is named and not the end."""
    monkeypatch.setenv("PYTHONPATH", str(Path(pytest.__file__).parent.parent))
    told: list[str] = []
    asked = _release_asking.ask_release(
        planted_release.planted(),
        [DIES_OF, ANSWERS, FAILS],
        request={"device": "cpu"},
        told=told.append,
    )
    row = asked.rows[ANSWERS]

    assert asked.stack["packages"]["transformers"] == planted_release.RELEASE
    assert (row["outcome"], row["did_it"], row["substituted"]) == ("silent", False, True)
    assert asked.unanswered == {DIES_OF: "the process was ended by SIGKILL while it was asked"}
    assert asked.rows[FAILS]["outcome"] == "not_askable"
    assert "no attribute 'LlamaConfig'" in asked.rows[FAILS]["why_not_askable"]
    assert told == [DIES_OF, ANSWERS, FAILS]


@pytest.mark.usefixtures("release_cache")
def test_a_release_that_cannot_be_imported_is_not_askable() -> None:
    """Every probe of it says why, and none is judged."""
    environment = make_environment("0.0.1", install=planted_release.install_broken)
    asked = _release_asking.ask_release(environment, [ANSWERS], request={"device": "cpu"})

    assert asked.unanswered == {
        ANSWERS: "this release cannot be imported: ImportError: needs another torch"
    }


@pytest.mark.usefixtures("release_cache")
def test_an_environment_of_another_release_is_refused() -> None:
    """What a folder is called does not decide which release answered."""

    def install_other(release: str, python: Path) -> None:
        planted_release.install_stub("0.0.7", python)

    environment = make_environment("0.0.1", install=install_other)
    with pytest.raises(ReleaseError, match=r"got transformers 0\.0\.7 in that of 0\.0\.1"):
        _release_asking.ask_release(environment, [ANSWERS], request={"device": "cpu"})


def test_a_process_that_says_nothing_is_refused(tmp_path: Path) -> None:
    """An interpreter that ends at once is named with how it ended."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    (tmp_path / "bin" / "python").chmod(0o755)
    environment = ReleaseEnvironment(release="1.0.0", folder=tmp_path)
    with pytest.raises(ReleaseError, match="it ended with code 3 saying no such thing"):
        _release_asking.ask_release(environment, [ANSWERS], request={"device": "cpu"})


def test_a_process_that_hangs_is_ended(tmp_path: Path) -> None:
    """Past its time a process is killed, and the reason names the time."""
    (tmp_path / "answers").touch()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    ended = _release_asking._wait(process, tmp_path / "answers", told=lambda _: None, timeout_s=0.1)

    assert ended == "gave no answer within 0.1 s"
    assert process.poll() is not None


@pytest.mark.parametrize(("answers", "ended"), [(6, None), (2, "gave no answer within 2 s")])
def test_the_time_is_that_of_one_answer(
    answers: int, ended: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that goes on answering is let go on, however long all its answers take."""
    answering, clock = tmp_path / "answers", [0.0]
    answering.touch()

    def sleep(_: float) -> None:
        clock[0] += 1.0
        if clock[0] <= answers:
            with answering.open("a") as file:
                file.write("{}\n")

    process = SimpleNamespace(
        poll=lambda: 0 if clock[0] > 6 else None, kill=lambda: None, wait=lambda: 0
    )
    monkeypatch.setattr(
        _release_asking, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep)
    )

    found = _release_asking._wait(process, answering, told=lambda _: None, timeout_s=2.0)

    assert found == ended


def test_a_fault_of_any_class_is_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault whose class lies elsewhere than in the lab's list is still one of the lab's."""
    answered = _release_asking.Answers(fault={"kind": "NotFinite", "text": "no number"})
    monkeypatch.setattr(_release_asking, "_ask_once", lambda *_, **__: answered)
    environment = ReleaseEnvironment(release="1.0.0", folder=tmp_path)
    with pytest.raises(LabError, match="no number"):
        _release_asking.ask_release(environment, [ANSWERS], request={"device": "cpu"})


def test_the_labs_own_stack_must_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken installation is no answer: it is named, with how to mend it; its path is kept."""
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").write_text("raise ImportError('half of it')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ReleaseError, match=r"must import .*half of it.*make setup"):
        _release_asking.ask_release(own_environment(), [ANSWERS], request={"device": "cpu"})


LINES = [
    {"stack": {"packages": {}}, "cannot_load": None},
    {"asking": "one"},
    {"row": {"probe": "one", "said": "a line\nand another"}},
    {"asking": "two"},
    {"row": {"probe": "two", "said": "…"}},
]
WRITTEN = "".join(json.dumps(line) + "\n" for line in LINES)


@given(st.integers(min_value=0, max_value=len(WRITTEN)))
def test_answers_cut_off_anywhere_are_read_as_far_as_they_go(cut: int) -> None:
    """However much a process wrote before it died, whole rows are kept and one is being asked."""
    answers = _release_asking.read_answers(WRITTEN[:cut], ended="was ended by SIGKILL")
    rows = list(answers.rows)

    assert rows == ["one", "two"][: len(rows)]
    assert answers.asking in {None, "one", "two"} - set(rows)
