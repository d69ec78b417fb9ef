"""The chapter: refusals before a kernel starts, resumption, executed copies equal run by run."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from support import ROOT, MakeNotebook

from labkit import chapter, results
from labkit.chapter import executing, resuming
from labkit.errors import ProfileError, RunError
from labkit.profiles import Profile
from labkit.record import read_record
from labkit.results import RunFolder, read_results

WRITE = """from labkit.results import RunFolder
with RunFolder(run_dir) as folder:
    folder.write_section("admission", {"rows": [], "summary": {}, "elapsed_s": 1.0})
print(profile)"""

Executed = list[str]


def quiet(line: str) -> None:
    """Say nothing."""


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Executed:
    """Let a copy stand for execution, and return the names in the order they ran."""
    ran: Executed = []

    def execute(source: Path, output: Path, *, parameters: dict) -> None:
        ran.append(source.stem)
        shutil.copyfile(source, output)

    monkeypatch.setattr(executing, "papermill_execute", execute)
    return ran


def run(profile: Profile, folder: Path, notebooks: list[Path]) -> chapter.ChapterRun:
    """Run a chapter of these notebooks."""
    return chapter.run_chapter(profile, run=folder, notebooks=notebooks, say=quiet)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        pytest.param(None, "tagged `parameters`; got 0", id="no-tag"),
        pytest.param(
            'profile: str = "quick"',
            "takes the parameters profile; got run_dir=",
            id="unknown-name",
        ),
        pytest.param(
            'profile: int = 3\nrun_dir: str = ""', "profile must be of type int", id="wrong-type"
        ),
        pytest.param(
            'profile = "quick"\nrun_dir: str = ""', "must declare one of the types", id="untyped"
        ),
    ],
)
def test_a_notebook_that_does_not_take_the_parameters_is_refused(
    parameters: str | None,
    message: str,
    make_notebook: MakeNotebook,
    quick: Profile,
    tmp_path: Path,
    pretended: Executed,
) -> None:
    """A missing tag, an unknown name and a wrong type are refused before anything runs."""
    good = make_notebook("01_good.ipynb")
    bad = make_notebook("02_bad.ipynb", parameters=parameters)

    with pytest.raises(ProfileError, match=message):
        run(quick, tmp_path / "run", [good, bad])

    assert pretended == []
    assert not (tmp_path / "run" / "record.json").exists()


@pytest.mark.parametrize(
    ("declared", "value", "fits"),
    [
        ("int", 3, True),
        ("int", True, False),
        ("int", 3.0, False),
        ("float", 3, True),
        ("float", "3", False),
        ("bool", True, True),
        ("bool", 1, False),
        ("str", "a", True),
        ("str", None, False),
    ],
)
def test_types_are_those_of_python_but_bool_is_no_number(
    declared: str, value: object, fits: bool, make_notebook: MakeNotebook
) -> None:
    """A value passes where the declared type takes it, and true is not a number."""
    path = make_notebook(parameters=f"knob: {declared} = 0  # a knob")
    if fits:
        chapter.check_parameters(path, {"knob": value})
        return

    with pytest.raises(ProfileError, match=f"knob must be of type {declared}"):
        chapter.check_parameters(path, {"knob": value})


def test_a_chapter_without_notebooks_is_refused(tmp_path: Path) -> None:
    """A folder without notebooks is an error, not a chapter that ran."""
    with pytest.raises(RunError, match=r"NN_topic\.ipynb"):
        chapter.notebook_paths(tmp_path)


def test_a_chapter_runs_in_kernels_and_leaves_no_trace_of_the_machine(
    make_notebook: MakeNotebook, quick: Profile, tmp_path: Path
) -> None:
    """A notebook runs in its kernel, writes into the held folder, and its copy is normal form."""
    folder = tmp_path / "run"
    done = run(quick, folder, [make_notebook("04_admission.ipynb", cells=[WRITE])])

    assert done.executed == ("04_admission",)
    assert read_results(folder)["admission"]["elapsed_s"] == 1.0
    assert read_record(folder).status == "finished"

    copy = json.loads((folder / "executed" / "04_admission.ipynb").read_text())
    assert set(copy["metadata"]) == {"kernelspec", "language_info"}
    assert [set(cell["metadata"]) for cell in copy["cells"]] == [
        set(),
        {"tags"},
        {"tags"},
        set(),
    ]
    assert copy["cells"][-1]["outputs"][0]["text"] in (["quick\n"], "quick\n")
    assert copy["cells"][-1]["execution_count"] == 3
    nbformat.validate(nbformat.from_dict(copy))


def test_a_failed_notebook_keeps_the_good_copy_and_shows_the_bad_one(
    make_notebook: MakeNotebook, quick: Profile, tmp_path: Path
) -> None:
    """A failure names notebook, cell and cause, keeps both copies, and is recorded."""
    folder = tmp_path / "run"
    good = folder / "executed" / "01_topic.ipynb"
    good.parent.mkdir(parents=True)
    good.write_text("the last good copy")

    with pytest.raises(RunError) as failure:
        run(
            quick,
            folder,
            [make_notebook(cells=["1 + 1", 'raise ValueError("x must hold; got x=1.")'])],
        )

    assert "01_topic failed in cell 4: ValueError: x must hold; got x=1." in str(failure.value)
    assert "01_topic.failed.ipynb" in str(failure.value)
    assert ".." not in str(failure.value).replace(str(tmp_path), "")
    assert good.read_text() == "the last good copy"
    assert (folder / "executed" / "01_topic.failed.ipynb").is_file()
    assert read_record(folder).status == "failed"


def test_what_is_finished_is_kept(
    make_notebook: MakeNotebook, quick: Profile, tmp_path: Path, pretended: Executed
) -> None:
    """A second call runs nothing; a changed notebook or a lost copy runs again, alone."""
    notebooks = [make_notebook("01_a.ipynb"), make_notebook("02_b.ipynb", cells=["1"])]
    folder = tmp_path / "run"
    run(quick, folder, notebooks)
    first = read_record(folder)

    assert run(quick, folder, notebooks).reused == ("01_a", "02_b")
    assert read_record(folder) == first
    make_notebook("02_b.ipynb", cells=["2"])
    assert run(quick, folder, notebooks).executed == ("02_b",)
    (folder / "executed" / "01_a.ipynb").unlink()
    assert run(quick, folder, notebooks).executed == ("01_a",)
    (folder / "executed" / "01_a.ipynb").write_text("{}")
    assert run(quick, folder, notebooks).executed == ("01_a",)
    assert pretended == ["01_a", "02_b", "02_b", "01_a", "01_a"]


def test_a_lost_section_is_measured_again(
    make_notebook: MakeNotebook, quick: Profile, tmp_path: Path, pretended: Executed
) -> None:
    """A notebook counts as finished only while its section stands in the results."""
    notebooks = [make_notebook("04_admission.ipynb")]
    folder = tmp_path / "run"
    run(quick, folder, notebooks)
    run(quick, folder, notebooks)
    assert len(pretended) == 2, "no section was written, so it runs again"

    with RunFolder(folder) as held:
        held.write_section("admission", {"rows": [], "summary": {}, "elapsed_s": 1.0})
    run(quick, folder, notebooks)
    assert len(pretended) == 2


@pytest.mark.parametrize("changed", ["sources", "data", "packages", "model"])
def test_a_changed_input_runs_everything_again(
    changed: str,
    make_notebook: MakeNotebook,
    quick: Profile,
    tmp_path: Path,
    pretended: Executed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other sources, data, releases or weights make every finished notebook stale."""
    notebooks = [make_notebook("01_a.ipynb")]
    inputs = resuming.common_inputs
    run(quick, tmp_path / "run", notebooks)
    monkeypatch.setattr(
        resuming, "common_inputs", lambda *given: {**inputs(*given), changed: "other"}
    )

    assert run(quick, tmp_path / "run", notebooks).executed == ("01_a",)


def test_an_interrupted_chapter_goes_on(
    make_notebook: MakeNotebook,
    quick: Profile,
    tmp_path: Path,
    pretended: Executed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Interrupted in its second notebook, the same call runs the second and keeps the first."""
    notebooks = [make_notebook("01_a.ipynb"), make_notebook("02_b.ipynb")]
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(executing, "papermill_execute", _interrupt_at("02_b", pretended))
        with pytest.raises(KeyboardInterrupt):
            run(quick, folder, notebooks)

    assert read_record(folder).failure == {"type": "KeyboardInterrupt", "message": ""}
    assert not list(folder.glob(".part-*"))
    done = run(quick, folder, notebooks)
    assert (done.reused, done.executed) == (("01_a",), ("02_b",))
    assert read_record(folder).status == "finished"


def _interrupt_at(name: str, ran: Executed) -> Callable[..., None]:
    """Return an executor that is interrupted in one notebook."""

    def execute(source: Path, output: Path, *, parameters: dict) -> None:
        if source.stem == name:
            raise KeyboardInterrupt
        ran.append(source.stem)
        shutil.copyfile(source, output)

    return execute


def test_a_second_chapter_on_the_folder_is_refused(
    make_notebook: MakeNotebook, quick: Profile, tmp_path: Path, pretended: Executed
) -> None:
    """While another process holds the run folder nothing runs."""
    with RunFolder(tmp_path / "run"), pytest.raises(RunError, match="held by pid="):
        run(quick, tmp_path / "run", [make_notebook()])

    assert pretended == []


def test_what_the_model_was_outlives_a_partial_rerun(
    make_notebook: MakeNotebook, quick: Profile, tmp_path: Path, pretended: Executed
) -> None:
    """When the notebook that loads the model is kept, the record still has the model's digest."""
    notebooks = [make_notebook("01_a.ipynb"), make_notebook("02_b.ipynb")]
    folder = tmp_path / "run"
    run(quick, folder, notebooks)
    with RunFolder(folder) as held:
        held.observe(observed={"identity.checkpoint": "abc"}, resolved={"identity.model": "m"})
    make_notebook("02_b.ipynb", cells=["2"])

    assert run(quick, folder, notebooks).executed == ("02_b",)
    kept = read_record(folder)
    assert kept.in_force("identity.checkpoint") == "abc"
    assert kept.in_force("identity.model") == "m"


def test_a_run_inside_the_clone_is_named_without_the_clones_path(
    make_notebook: MakeNotebook,
    quick: Profile,
    pretended: Executed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A notebook gets the run's folder relative to the clone, so its copy names no machine."""
    seen: list[dict] = []
    monkeypatch.setattr(
        executing,
        "papermill_execute",
        lambda source, output, *, parameters: (
            seen.append(dict(parameters)),
            shutil.copyfile(source, output),
        ),
    )
    folder = ROOT / "results" / "test-chapter"
    try:
        run(quick, folder, [make_notebook()])
    finally:
        shutil.rmtree(folder)

    assert seen == [{"profile": "quick", "run_dir": "results/test-chapter"}]


READ = """from labkit.profiles import load_profile
print(load_profile(profile).steps)"""


def test_a_profile_of_ones_own_reaches_the_notebooks(
    make_notebook: MakeNotebook, quick: Profile, tmp_path: Path
) -> None:
    """A kernel reads the profile that the chapter was given, though it bears a lab's own name."""
    own = dataclasses.replace(quick, steps=3)
    folder = ROOT / "results" / "test-own"
    try:
        run(own, folder, [make_notebook(cells=[READ])])
        copy = (folder / "executed" / "01_topic.ipynb").read_text()
        kept = read_record(folder)
    finally:
        shutil.rmtree(folder)

    assert json.loads(copy)["cells"][-1]["outputs"][0]["text"] in (["3\n"], "3\n")
    passed = {"profile": "quick.yaml", "run": "test-own"}
    assert kept.in_force("evaluation.parameters") == passed
    assert kept.in_force("evaluation.profile")["steps"] == 3
    assert "results/test-own/quick.yaml" in copy
    assert str(ROOT) not in copy


def test_a_record_names_no_folder_of_the_run(
    make_notebook: MakeNotebook, quick: Profile, tmp_path: Path, pretended: Executed
) -> None:
    """Where the run lies outside the clone, its record has its name and not its place."""
    run(dataclasses.replace(quick, steps=3), tmp_path / "run", [make_notebook()])

    assert str(tmp_path) not in (tmp_path / "run" / "record.json").read_text()


@pytest.mark.slow
def test_a_killed_chapter_ends_like_an_undisturbed_one(
    make_notebook: MakeNotebook, quick: Profile, tmp_path: Path
) -> None:
    """Killed outright in its second notebook, the same call ends with the same results."""
    wait = 'import pathlib, time\nif not pathlib.Path("go").exists():\n    time.sleep(60)'
    notebooks = [
        make_notebook("01_a.ipynb", cells=["1 + 1"]),
        make_notebook("04_admission.ipynb", cells=[wait, WRITE]),
    ]
    folder, go = tmp_path / "run", notebooks[0].parent / "go"
    go.touch()
    run(quick, folder, notebooks)
    calm = _what_stands(folder)
    shutil.rmtree(folder)
    go.unlink()

    _kill_in(notebooks[-1], folder=folder, notebooks=notebooks)
    assert read_record(folder).status == "started"
    go.touch()
    assert run(quick, folder, notebooks).reused == ("01_a",)
    assert _what_stands(folder) == calm


def _what_stands(folder: Path) -> dict[str, object]:
    """Return everything of a run that is no time and no id."""
    copies = {path.name: path.read_text() for path in (folder / "executed").iterdir()}
    results = {**read_results(folder), "run": None}
    return {**copies, "results": results, "files": sorted(p.name for p in folder.iterdir())}


def _kill_in(last: Path, *, folder: Path, notebooks: list[Path]) -> None:
    """Run the chapter in a process of its own and kill it while a notebook runs."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom labkit.chapter import run_chapter\n"
        "from labkit.profiles import load_profile\n"
        "run_chapter(load_profile('quick'), run=sys.argv[1], notebooks=[*map(Path, sys.argv[2:])])"
    )
    command = [sys.executable, "-u", "-c", code, str(folder), *map(str, notebooks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline() != f"{last.stem}: running\n":
            pass
        time.sleep(3)
        process.kill()


def test_outputs_are_stored_in_place_and_only_if_all_went_well(
    make_notebook: MakeNotebook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Storing executes with the notebook's own defaults; one that fails is left as it was."""
    monkeypatch.setattr(results, "SCRATCH", str(tmp_path / "scratch"))
    good = make_notebook("01_good.ipynb", cells=["print(profile)"])
    bad = make_notebook("02_bad.ipynb", cells=["1 / 0"])
    before = bad.read_bytes()

    with pytest.raises(RunError, match="02_bad failed in cell 3: ZeroDivisionError"):
        chapter.store_outputs(notebooks=[good, bad], say=quiet)

    cells = json.loads(good.read_text())["cells"]
    assert [cell.get("execution_count") for cell in cells] == [None, 1, 2]
    assert "quick" in cells[2]["outputs"][0]["text"][0]
    assert bad.read_bytes() == before
