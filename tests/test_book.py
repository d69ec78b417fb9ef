"""The book's run: which one is shown, what is staged, and how a failed build reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from labkit import book
from labkit.errors import RunError
from labkit.record import read_record
from labkit.results import recorded_run

SECTION = {"rows": [], "summary": {}, "elapsed_s": 1.25}


def make_run(root: Path, name: str, *, command: str = "chapter") -> Path:
    """Write a finished run with one executed notebook, a failed one and a section."""
    folder = root / "results" / name
    with recorded_run(folder, command=command, profile={"name": "quick"}) as held:
        held.write_section("admission", SECTION)
    (folder / "executed").mkdir()
    (folder / "executed" / "04_admission.ipynb").write_text("{}")
    (folder / "executed" / "04_admission.failed.ipynb").write_text("{}")
    return folder


def finish_at(folder: Path, time_utc: str) -> None:
    """Set when a run ended."""
    file = folder / "record.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "finished_utc": time_utc}))


def test_staging_copies_what_ran_and_describes_it(tmp_path: Path) -> None:
    """The stage holds the executed notebooks, none that failed, and a page about the run."""
    folder = make_run(tmp_path, "mine")
    old = tmp_path / "book" / "run" / "09_old.ipynb"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    stage = book.stage_run(folder, root=tmp_path)

    assert sorted(path.name for path in stage.iterdir()) == [
        "04_admission.ipynb",
        "about_this_run.md",
    ]
    page = (stage / "about_this_run.md").read_text()
    run = read_record(folder)
    assert f"| Run | {run.id} |" in page
    assert "| admission | 1.25 |" in page
    assert "| fingerprints | – |" in page
    assert f"| labkit | {run.packages['labkit']} |" in page


def test_a_run_that_executed_nothing_is_refused(tmp_path: Path) -> None:
    """A folder without executed notebooks cannot be shown, and the old stage stays."""
    old = tmp_path / "book" / "run" / "old.ipynb"
    old.parent.mkdir(parents=True)
    old.write_text("{}")

    with pytest.raises(RunError, match="labkit chapter --profile quick"):
        book.stage_run(tmp_path / "results" / "gone", root=tmp_path)

    assert old.is_file()


def test_the_last_finished_chapter_of_ones_own_is_shown(tmp_path: Path) -> None:
    """Without a name the book shows the reader's last finished chapter, else the published run."""
    published = make_run(tmp_path, "published-cpu")
    assert book.choose_run(root=tmp_path) == published

    for name, time_utc in (("cpu", "2026-02-02T00:00:00Z"), ("quick", "2026-01-01T00:00:00Z")):
        finish_at(make_run(tmp_path, name), time_utc)
    make_run(tmp_path, "single", command="admission")
    assert book.choose_run(root=tmp_path).name == "cpu"
    assert book.choose_run(published) == published


@pytest.mark.parametrize("status", [0, 1])
def test_a_failed_build_shows_its_warnings_and_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """A build that fails, or ends without a page, shows its warnings and its last lines."""
    log = "x.md:3: WARNING: no such reference\n" + "reading\n" * 40 + "the last line\n"

    def build(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert {"--all", "-W", "-n", "--keep-going"} <= set(command)
        return subprocess.CompletedProcess(command, status, stdout=log)

    monkeypatch.setattr(subprocess, "run", build)
    with pytest.raises(RunError) as failure:
        book.build_book(root=tmp_path)

    text = str(failure.value)
    assert "x.md:3: WARNING: no such reference" in text
    assert text.count("reading") < 30
    assert "the last line" in text
