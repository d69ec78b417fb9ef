"""The book's run: which one is shown, what is staged, and how a failed build reads."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sections import least_section
from support import ROOT

from labkit import book
from labkit.book.choosing import PUBLISHED
from labkit.cli import main
from labkit.errors import ResultsError, RunError
from labkit.record import read_record
from labkit.results import NOTEBOOKS, SECTIONS, recorded_run
from labkit.staged import read_shown


def make_run(root: Path, name: str, *, command: str = "chapter") -> Path:
    """Write a finished run with every section and notebook, and a failed copy of one."""
    folder = root / "results" / name
    with recorded_run(folder, command=command, profile={"name": "quick"}) as held:
        for section in SECTIONS:
            held.write_section(section, least_section(section, elapsed_s=1.25))
        (folder / "executed").mkdir()
        for notebook in NOTEBOOKS:
            shutil.copyfile(ROOT / "notebooks" / notebook, folder / "executed" / notebook)
        (folder / "executed" / "04_admission.failed.ipynb").write_text("{}")
    return folder


def finish_at(folder: Path, time_utc: str) -> None:
    """Set when a run ended."""
    restate(folder, started_utc=time_utc, finished_utc=time_utc)


def restate(folder: Path, **changes: object) -> None:
    """Change fields of a run's record."""
    file = folder / "record.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def refuse_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command that comes as far as staging or building fail the test."""
    for step in ("stage_run", "build_book"):
        monkeypatch.setattr(book, step, lambda *_, step=step, **__: pytest.fail(step))


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
        "notebook_status.md",
        "record.json",
        "results.json",
        "shown.json",
        "stored_measurements.md",
        "this_run_and_yours.md",
    ]
    assert read_shown(stage).lacks == ()
    stored = (stage / "stored_measurements.md").read_text()
    assert "## The preservation table on Gemma 3: " in stored
    page = (stage / "about_this_run.md").read_text()
    run = read_record(folder)
    assert f"| Run | {run.id} |" in page
    assert "| admission | 1.25 |" in page
    assert "| fingerprints | 1.25 |" in page
    assert f"| torch | {run.in_force('substrate.torch')} |" in page
    assert "| window | – |" in page


def test_a_folder_that_is_not_there_is_shown_as_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any run every notebook has a page that says so, with the command that makes one."""
    stage = book.stage_run(tmp_path / "results" / "gone", root=tmp_path)

    for notebook in NOTEBOOKS:
        page = (stage / notebook.replace(".ipynb", ".md")).read_text()
        assert page.startswith("# ")
        assert "`labkit chapter --profile cpu`" in page
    assert "the folder is not there" in (stage / "about_this_run.md").read_text()
    assert "gone is not a whole run: the folder is not there" in capsys.readouterr().err


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


def change_json(file: Path, **changes: object) -> None:
    """Change keys of a JSON file, with the record's digest of it made anew."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    if file.name != "record.json":
        vouch_again(file)


def vouch_again(file: Path) -> None:
    """Let the record of a run forget a file, as if it had been made without."""
    folder = next(parent for parent in file.parents if (parent / "record.json").is_file())
    kept = [
        item
        for item in json.loads((folder / "record.json").read_text())["artefacts"]
        if folder / item["path"] != file
    ]
    restate(folder, artefacts=kept)


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        pytest.param("status", "status='started' in place of 'finished'", id="unfinished"),
        pytest.param("notebook", "no executed/02_preservation.ipynb", id="notebook"),
        pytest.param("section", "no section fallbacks", id="section"),
        pytest.param("results", "no results.json", id="no-results"),
        pytest.param("old results", "results.json is of version 0, not 1", id="old-results"),
        pytest.param("record", "no record.json", id="no-record"),
        pytest.param("old record", "record.json is of version 1, not 2", id="old-record"),
        pytest.param(
            "source", "executed/02_preservation.ipynb is of an older source", id="old-notebook"
        ),
    ],
)
def test_a_run_that_is_not_whole_is_shown_with_what_it_lacks(
    tmp_path: Path, lacks: str, said: str
) -> None:
    """What a run lacks or has of another version is named, with the command that completes it."""
    folder = make_run(tmp_path, "mine")
    results, notebook = folder / "results.json", folder / "executed" / NOTEBOOKS[1]
    if lacks == "status":
        restate(folder, status="started", finished_utc=None, elapsed_s=None, artefacts=[])
    elif lacks == "section":
        change_json(results, fallbacks=None)
    elif lacks in ("results", "record"):
        (folder / f"{lacks}.json").unlink()
    elif lacks.startswith("old"):
        file = folder / f"{lacks.removeprefix('old ')}.json"
        version = json.loads(file.read_text())["schema_version"] - 1
        change_json(file, schema_version=version)
    elif lacks == "source":
        vouch_again(notebook)
        notebook.write_text(notebook.read_text().replace("## Overview", "## Survey"))
    else:
        notebook.unlink()
    stage = book.stage_run(folder, root=tmp_path)
    shown = read_shown(stage)

    assert said in "; ".join(shown.lacks)
    assert said in (stage / "about_this_run.md").read_text()
    assert shown.remedy.startswith("labkit chapter --profile ")
    assert shown.remedy.endswith("results/mine")


def test_a_notebook_of_an_older_source_says_so_below_its_title(tmp_path: Path) -> None:
    """The page of a notebook that was changed since it ran has a note, and a whole one has none."""
    folder = make_run(tmp_path, "mine")
    old = folder / "executed" / NOTEBOOKS[1]
    vouch_again(old)
    old.write_text(old.read_text().replace("## Overview", "## Survey"))
    stage = book.stage_run(folder, root=tmp_path)
    second = [json.loads((stage / name).read_text())["cells"][1] for name in NOTEBOOKS[:2]]

    assert second[0]["cell_type"] == "code"
    assert "ran an older source of this notebook" in second[1]["source"]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        pytest.param("record.json", "{", "record.json", id="record"),
        pytest.param("record.json", "[]", "record.json", id="record-of-another-shape"),
        pytest.param("results.json", "{", "results.json", id="results"),
        pytest.param("results.json", '{"schema_version": 1}', "results.json", id="schema"),
        pytest.param(f"executed/{NOTEBOOKS[0]}", "{", NOTEBOOKS[0], id="notebook"),
        pytest.param(f"executed/{NOTEBOOKS[0]}", "{}", NOTEBOOKS[0], id="no-notebook"),
    ],
)
@pytest.mark.parametrize("vouched", [True, False], ids=["vouched-for", "unknown"])
def test_a_corrupt_run_stops_the_book_by_name(
    tmp_path: Path, file: str, text: str, said: str, vouched: bool
) -> None:
    """A file that is there and cannot be what it claims to be is named; the old stage stays."""
    folder = make_run(tmp_path, "mine")
    if not vouched:
        restate(folder, artefacts=[])
    (folder / file).write_text(text)
    old = tmp_path / "book" / "run" / "old.ipynb"
    old.parent.mkdir(parents=True)
    old.write_text("{}")

    with pytest.raises(ResultsError, match=said):
        book.stage_run(folder, root=tmp_path)

    assert old.is_file()


def test_a_file_that_was_changed_by_hand_stops_the_book(tmp_path: Path) -> None:
    """Results that are sound and not those of the record are refused by their digest."""
    folder = make_run(tmp_path, "mine")
    file = folder / "results.json"
    file.write_text(file.read_text().replace('"elapsed_s": 1.25', '"elapsed_s": 1.5'))

    with pytest.raises(ResultsError, match=r"artefact results\.json must have sha256="):
        book.stage_run(folder, root=tmp_path)


def test_the_status_page_says_of_each_notebook_how_it_went(tmp_path: Path) -> None:
    """A notebook that ran, one that failed and one of an older source are told apart."""
    folder = make_run(tmp_path, "mine")
    executed = folder / "executed"
    (executed / NOTEBOOKS[3]).unlink()  # its failed copy is still there
    vouch_again(executed / NOTEBOOKS[1])
    old = (executed / NOTEBOOKS[1]).read_text()
    (executed / NOTEBOOKS[1]).write_text(old.replace("## Overview", "## Survey"))
    stage = book.stage_run(folder, root=tmp_path)
    rows = [
        [cell.strip() for cell in line.split("|")[2:-1]]
        for line in (stage / "notebook_status.md").read_text().splitlines()
        if line.startswith("| [0")
    ]

    assert [row[0] for row in rows] == ["ran"] * 3 + ["failed"] + ["ran"] * (len(NOTEBOOKS) - 4)
    assert [row[2] for row in rows[:2]] == ["this one", "older"]
    assert {row[3] for row in rows} == {"1.25"}


def test_a_copy_of_the_book_has_a_stage_of_its_own(tmp_path: Path) -> None:
    """The copied source has the pages and the settings, and none of what was staged before."""
    source, target = tmp_path / "clone", tmp_path / "copy"
    for name in ("_config.yml", "_toc.yml", "book/intro.md", "book/run/old.ipynb"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    target.mkdir()
    book.copy_source(target, root=source)
    (target / "book" / "gone.md").write_text("a page that the book has no more")
    book.copy_source(target, root=source)
    copied = {p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file()}

    assert copied == {".labkit-copy", "_config.yml", "_toc.yml", "book/intro.md"}


def test_a_folder_of_other_files_takes_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A book that is no copy of ours keeps its pages, and the command names its folder."""
    refuse_to_build(monkeypatch)
    (tmp_path / "book").mkdir()
    for name in ("_config.yml", "book/ch1.md"):
        (tmp_path / name).write_text("a stranger's")

    assert main(["book", "--run", PUBLISHED, "--into", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "labkit book: A copy of the book must go into an empty folder or over an earlier copy; "
        f"got into={tmp_path}, which holds other files. Name another folder, or empty this one.\n"
    )
    for name in ("_config.yml", "book/ch1.md"):
        assert (tmp_path / name).read_text() == "a stranger's"


def test_the_clone_is_no_copy_of_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clone is refused by name, though its book is the very one to copy."""
    refuse_to_build(monkeypatch)

    assert main(["book", "--run", PUBLISHED, "--into", str(ROOT)]) == 2
    assert capsys.readouterr().err == (
        f"labkit book: A copy of the book must go beside the clone's own; got into={ROOT}, the "
        "clone itself. Name another folder, or leave --into out.\n"
    )


@pytest.mark.parametrize("into", ["/proc/x", "some.json", "some.json/below"])
def test_a_copy_that_cannot_be_made_is_one_message(
    into: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that cannot be made, and a file in its place, end with status 2 and their name."""
    refuse_to_build(monkeypatch)
    (tmp_path / "some.json").write_text("{}")
    folder = str(tmp_path / into)

    assert main(["book", "--run", PUBLISHED, "--into", folder]) == 2
    assert folder in capsys.readouterr().err
    assert (tmp_path / "some.json").read_text() == "{}"


def test_a_named_run_that_is_not_there_builds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt folder ends with status 2 before the book's own site is touched."""
    refuse_to_build(monkeypatch)
    folder = tmp_path / "gone"

    assert main(["book", "--run", str(folder)]) == 2
    assert capsys.readouterr().err == (
        f"labkit book: A run that is named must be there; got run={folder}. "
        "Name a folder under results, or leave --run out for your last finished run.\n"
    )


def test_the_example_shows_a_run_that_a_clone_has(capsys: pytest.CaptureFixture[str]) -> None:
    """The README and the help name a run that is there before anything was run."""
    with pytest.raises(SystemExit):
        main(["book", "--help"])
    texts = [capsys.readouterr().out, (ROOT / "README.md").read_text(encoding="utf-8")]
    named = [re.findall(r"labkit book --run (results/\S+)", text) for text in texts]

    assert named == [[PUBLISHED], [PUBLISHED]]


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


def test_a_run_that_is_staged_again_is_left_untouched(tmp_path: Path) -> None:
    """Files that are as they were keep their times, so that no build reads them anew."""
    folder = make_run(tmp_path, "mine")

    def times_ns() -> dict[str, int]:
        stage = book.stage_run(folder, root=tmp_path)
        return {path.name: path.stat().st_mtime_ns for path in stage.iterdir()}

    assert times_ns() == times_ns()
