"""The book's run: which one is shown, what is staged, and how a failed build reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from sections import least_section

from labkit import book
from labkit.errors import RunError
from labkit.record import read_record
from labkit.results import NOTEBOOKS, SECTIONS, recorded_run


def make_run(root: Path, name: str, *, command: str = "chapter") -> Path:
    """Write a finished run with every section and notebook, and a failed copy of one."""
    folder = root / "results" / name
    with recorded_run(folder, command=command, profile={"name": "quick"}) as held:
        for section in SECTIONS:
            held.write_section(section, least_section(section, elapsed_s=1.25))
    (folder / "executed").mkdir()
    for notebook in NOTEBOOKS:
        (folder / "executed" / notebook).write_text("{}")
    (folder / "executed" / "04_admission.failed.ipynb").write_text("{}")
    return folder


def finish_at(folder: Path, time_utc: str) -> None:
    """Set when a run ended."""
    restate(folder, started_utc=time_utc, finished_utc=time_utc)


def restate(folder: Path, **changes: object) -> None:
    """Change fields of a run's record."""
    file = folder / "record.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_staging_copies_what_ran_and_describes_it(tmp_path: Path) -> None:
    """The stage holds the executed notebooks, none that failed, and a page about the run."""
    folder = make_run(tmp_path, "mine")
    old = tmp_path / "book" / "run" / "09_old.ipynb"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    stage = book.stage_run(folder, root=tmp_path)

    assert sorted(path.name for path in stage.iterdir()) == [
        *NOTEBOOKS,
        "about_this_run.md",
        "results.json",
    ]
    page = (stage / "about_this_run.md").read_text()
    run = read_record(folder)
    assert f"| Run | {run.id} |" in page
    assert "| admission | 1.25 |" in page
    assert "| fingerprints | 1.25 |" in page
    assert f"| torch | {run.in_force('substrate.torch')} |" in page
    assert "| window | – |" in page


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


def test_a_corrupt_record_elsewhere_does_not_stop_the_book(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run whose record or results cannot be read is passed over, and named on standard error."""
    published = make_run(tmp_path, "published-cpu")
    (make_run(tmp_path, "torn") / "record.json").write_text("{")
    (make_run(tmp_path, "bent") / "results.json").write_text("[]")

    assert book.choose_run(root=tmp_path) == published
    said = capsys.readouterr().err
    assert "torn/record.json" in said
    assert "bent/results.json" in said
    assert "passed over" in said


def test_a_run_that_is_not_whole_is_not_chosen(tmp_path: Path) -> None:
    """A finished chapter of the reader's own that lacks a notebook gives way to the published."""
    published = make_run(tmp_path, "published-cpu")
    (make_run(tmp_path, "scratch") / "executed" / NOTEBOOKS[0]).unlink()

    assert book.choose_run(root=tmp_path) == published


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        pytest.param("status", "status='started'", id="unfinished"),
        pytest.param("notebook", "no executed/02_preservation.ipynb", id="notebook"),
        pytest.param("section", "no section fallbacks", id="section"),
        pytest.param("results", "no sections fingerprints, preservation, ", id="results"),
    ],
)
def test_a_run_that_is_not_whole_is_refused(tmp_path: Path, lacks: str, said: str) -> None:
    """What a run lacks is named before anything is staged, and the old stage stays."""
    folder = make_run(tmp_path, "mine")
    old = tmp_path / "book" / "run" / "old.ipynb"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    file = folder / "results.json"
    stored = json.loads(file.read_text())
    if lacks == "status":
        restate(folder, status="started", finished_utc=None, elapsed_s=None, artefacts=[])
    elif lacks == "section":
        file.write_text(json.dumps({**stored, "fallbacks": None}))
    elif lacks == "results":
        file.unlink()
    else:
        (folder / "executed" / NOTEBOOKS[1]).unlink()

    with pytest.raises(RunError) as refusal:
        book.stage_run(folder, root=tmp_path)

    assert said in str(refusal.value)
    assert old.is_file()


def test_a_copy_of_the_book_has_a_stage_of_its_own(tmp_path: Path) -> None:
    """The copied source has the pages and the settings, and none of what was staged before."""
    source, target = tmp_path / "clone", tmp_path / "copy"
    for name in ("_config.yml", "_toc.yml", "book/intro.md", "book/run/old.ipynb"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    (target / "book").mkdir(parents=True)
    (target / "book" / "gone.md").write_text("a page that the book has no more")
    book.copy_source(target, root=source)
    copied = {p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file()}

    assert copied == {"_config.yml", "_toc.yml", "book/intro.md"}


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
