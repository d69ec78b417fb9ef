"""A user's own case: own prompts and steps, and verdicts made anew from what a run stored."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import tiny

from labkit.cli import main
from labkit.errors import LabError, PromptError, ResultsError
from labkit.experiments import preservation
from labkit.experiments._own_prompts import read_prompts
from labkit.experiments.rejudging import rejudge
from labkit.profiles import Lane, Profile, load_profile

KNOBS = ["chunked_prefill:chunk=5", "window:size=8", "float32", "padded_batch:rows=2"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkpoint folder with a tiny Llama."""
    return tiny.save(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of three prompts, one of them unnamed."""
    path = tmp_path_factory.mktemp("prompts") / "mine.jsonl"
    lines = [
        {"name": "first", "text": "A ledger is kept in ink, and the ink is kept dry."},
        {"text": "Each crate was weighed twice, once full and once empty."},
        {"name": "third", "text": "The harbour froze in March, which nobody had planned for."},
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def profile(checkpoint: Path) -> Profile:
    """Return a profile of the smallest size, on the tiny model."""
    return dataclasses.replace(
        load_profile("quick"),
        model=str(checkpoint),
        prompts=2,
        prompt_tokens=40,
        rope_prompts=2,
        float32_lane=Lane(prompts=2, steps=3),
    )


@pytest.fixture(scope="module")
def run(profile: Profile, prompts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run on the user's prompts."""
    folder = tmp_path_factory.mktemp("results") / "mine"
    preservation.run(profile, folder, knobs=KNOBS, prompts=prompts, steps=4)
    return folder


def test_own_prompts_are_run_whole_under_their_names(run: Path) -> None:
    """Rows name the user's prompts, the record names their file, and steps are the user's."""
    stored = json.loads((run / "results.json").read_text())
    section = stored["preservation"]
    of_first_row = [r["prompt"] for r in section["runs"] if r["knob"] == "chunked_prefill_5"]

    assert of_first_row == ["first", "line2", "third"]
    assert section["baseline"]["steps"] == 4
    assert [len(row) for row in section["baseline"]["margins"]] == [4, 4, 4]
    record = (run / "record.json").read_text()
    assert "mine.jsonl" in record


def test_verdicts_made_anew_are_the_stored_ones(run: Path) -> None:
    """From the journal alone each row and lane comes out as the run had it."""
    section = json.loads((run / "results.json").read_text())["preservation"]
    again = rejudge(run)

    assert again["rows"] == section["rows"]
    assert again["lanes"] == section["lanes"]
    assert again["summary"] == section["summary"]


@pytest.mark.parametrize(
    ("unit", "says"),
    [
        ("float16/chunked_prefill_5/first", "distances of chunked_prefill_5 in float16 are others"),
        ("float32/window_8_0/first", "distances of window_8_0 in float32 are others"),
        ("float32/reference/first", "lacks float32/reference/first"),
    ],
)
def test_what_the_journal_lacks_is_refused(run: Path, tmp_path: Path, unit: str, says: str) -> None:
    """A verdict is not made from a part of what its row was made of."""
    (tmp_path / "results.json").write_bytes((run / "results.json").read_bytes())
    lines = (run / "journal.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "journal.jsonl").write_text("".join(x for x in lines if f'"{unit}"' not in x))

    with pytest.raises(ResultsError, match=says):
        rejudge(tmp_path)


def test_a_run_without_its_journal_is_refused(run: Path, tmp_path: Path) -> None:
    """Without the per-step numbers nothing is decided."""
    (tmp_path / "results.json").write_bytes((run / "results.json").read_bytes())

    with pytest.raises(ResultsError, match=r"journal.jsonl is not there"):
        rejudge(tmp_path)


def test_the_command_reads_own_prompts_and_stored_runs(
    checkpoint: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One command measures a case of one's own, another makes its verdicts anew."""
    out = str(tmp_path / "mine")
    asked = ["--model", str(checkpoint), "--prompts", str(prompts), "--steps", "4", "--out", out]
    first = main(["preservation", *asked, "--knob", "chunked_prefill:chunk=5", "--json"])
    measured = json.loads(capsys.readouterr().out)
    second = main(["preservation", "--from", out, "--json"])

    assert first == second
    assert json.loads(capsys.readouterr().out)["rows"] == measured["rows"]


def test_a_table_is_chosen_by_name(profile: Profile) -> None:
    """A named table takes the place of the profile's rows; options named one by one go first."""
    swept = preservation.choose_options(profile, None, table="bits")
    named = preservation.choose_options(profile, ["no_cache"], table="bits")

    assert [option.params["bits"] for option in swept] == [*range(16, 1, -1)]
    assert [option.spelled for option in named] == ["no_cache"]


def test_from_takes_no_other_choice(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What would need a new run cannot be asked of a stored one."""
    code = main(["preservation", "--from", str(run), "--steps", "9"])

    assert code == 2
    assert "got steps as well" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "holds none"),
        ("not json", "line 1 is not"),
        ('["a"]', "line 1 is no object"),
        ('{"text": "a", "txt": "b"}', "line 1 has txt"),
        ('{"text": "a"}\n{"text": " "}', "line 2 has such a one"),
        ('{"text": "a", "name": ""}', "line 1 has such a one"),
        ('{"name": "a"}', "line 1 has such a one"),
        ('{"text": "a", "name": "x/y"}', "must hold no '/'"),
        ('{"text": "a", "name": "x"}\n{"text": "b", "name": "x"}', "'x'"),
    ],
)
def test_a_broken_prompt_file_is_refused_by_line(tmp_path: Path, content: str, says: str) -> None:
    """Each way to break the file has a message that names the line."""
    path = tmp_path / "mine.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(PromptError, match=says):
        read_prompts(path)


def test_a_missing_file_and_no_steps_are_refused(profile: Profile, tmp_path: Path) -> None:
    """Neither a file that is not there nor zero steps gets as far as a model."""
    with pytest.raises(LabError, match=r"readable file; none\.jsonl"):
        preservation.run(profile, prompts=tmp_path / "none.jsonl")
    with pytest.raises(PromptError, match="steps=0"):
        preservation.run(profile, steps=0)


def test_a_coarser_precision_states_the_weights_it_altered(profile: Profile) -> None:
    """Declaring bfloat16 over float16 weights names how many the cast altered, and of how many."""
    row = preservation.run(profile, knobs=["bfloat16"], steps=3)["rows"][0]
    model = tiny.loaded(dtype="float16").model
    total = sum(p.numel() for p in model.parameters())

    assert row["verdict"] == "different artefact"
    assert row["declared"]
    assert f"of the {total:,} loaded weights" in row["sentence"]
    assert "its unit is the plain run in bfloat16" in row["sentence"]
