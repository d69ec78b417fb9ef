"""Records for others: a Process Run Crate that its own library reads, and a span's attributes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from rocrate.rocrate import ROCrate
from support import ROOT

from labkit import exports
from labkit.cli import main
from labkit.errors import ResultsError, RunError
from labkit.record import (
    end_record,
    identify,
    observe,
    read_measured,
    read_record,
    seal_record,
    start_record,
)

PUBLISHED = ROOT / "results" / "published-quick"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the folder of a finished run with one file."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "results.json").write_text("{}")
    start_record(folder, command="preservation", profile={"name": "quick", "model": "embedded"})
    observe(folder, resolved={"identity.model": "smollm2"}, observed={"execution.steps": 8})
    seal_record(folder, end_record(folder), files=[folder / "results.json"])
    return folder


def test_a_crate_says_what_made_its_files(run: Path, tmp_path: Path) -> None:
    """The crate follows the profile, and its action links program, inputs, files and times."""
    exports.write_crate(run, tmp_path / "crate")
    crate = ROCrate(tmp_path / "crate")
    (action,) = crate.get_by_type("CreateAction")
    record = read_record(run)

    assert crate.root_dataset["conformsTo"].id == "https://w3id.org/ro/wfrun/process/0.5"
    assert action["instrument"]["name"] == "labkit"
    assert {item.id for item in action["result"]} == {"record.json", "results.json"}
    assert "smollm2" in {item["value"] for item in action["object"]}
    assert (action["startTime"], action["endTime"]) == (record.started_utc, record.finished_utc)
    assert crate.dereference("results.json")["sha256"] == record.artefacts[0].sha256
    assert (tmp_path / "crate" / "results.json").read_text() == "{}"


def test_two_crates_of_one_run_are_equal(run: Path, tmp_path: Path) -> None:
    """A crate is a function of the run: no clock of its own."""
    first, second = (exports.write_crate(run, tmp_path / name) for name in ("a", "b"))

    assert first.read_text() == second.read_text()


def test_a_failed_run_is_a_failed_action(run: Path, tmp_path: Path) -> None:
    """The crate of a failed run has its status and its error."""
    seal_record(run, end_record(run, failure=OSError("no room")), files=[])
    exports.write_crate(run, tmp_path / "crate")
    (action,) = ROCrate(tmp_path / "crate").get_by_type("CreateAction")

    assert action["error"] == "no room"
    assert "FailedActionStatus" in json.dumps(action.properties())


def test_a_crate_of_other_files_is_refused(run: Path, tmp_path: Path) -> None:
    """Files that are not the run's own do not go into a crate, nor into a folder in use."""
    with pytest.raises(RunError, match="must go into an empty folder"):
        exports.write_crate(run, run)
    (run / "results.json").write_text("[]")
    with pytest.raises(ResultsError, match=r"artefact results\.json must have sha256="):
        exports.write_crate(run, tmp_path / "crate")

    assert not (tmp_path / "crate").exists()


def test_a_span_has_the_names_of_the_conventions(run: Path) -> None:
    """Each gen_ai attribute is one that the library knows, and what is not recorded is listed."""
    span = exports.as_span(read_record(run))
    known = {value for key, value in vars(gen_ai_attributes).items() if key.startswith("GEN_AI")}
    ours = {name: value for name, value in span["attributes"].items() if name.startswith("gen_ai")}

    assert set(ours) <= known
    assert ours["gen_ai.request.model"] == "embedded"
    assert ours["gen_ai.response.model"] == "smollm2"
    assert ours["gen_ai.request.max_tokens"] == 8
    assert "execution.window" in span["attributes"]["labkit.record.not_recorded"]
    assert (span["name"], span["status"]) == ("text_completion smollm2", "OK")


def test_a_span_names_the_identity_that_the_record_has(run: Path) -> None:
    """Digest, whether it is whole, and the verdicts' source are those of `record identity`."""
    observe(run, observed={"execution.dtype": "bfloat16"})
    record, verdicts = read_record(run), read_measured(ROOT / "results" / "published-cpu")
    attributes = exports.as_span(record, verdicts)["attributes"]
    identity = identify(record, verdicts)

    assert attributes["labkit.record.identity_sha256"] == identity.sha256
    assert attributes["labkit.record.identity_whole"] is False
    assert attributes["labkit.record.identity_missing"] == list(identity.missing)
    assert attributes["labkit.record.identity_verdicts"] == "results/published-cpu/results.json"


def test_a_run_is_named_by_its_record_too(run: Path, tmp_path: Path) -> None:
    """The crate of a record's file is the crate of its folder."""
    by_file = exports.write_crate(run / "record.json", tmp_path / "a")
    by_folder = exports.write_crate(run, tmp_path / "b")

    assert by_file.read_text() == by_folder.read_text()


def test_a_file_is_no_folder_for_a_crate(run: Path, tmp_path: Path) -> None:
    """A crate on or below a file is refused by name, and the file stays."""
    file = tmp_path / "README.md"
    file.write_text("text")
    for target, message in (
        (file, f"got path={file}, which is a file. Name another one."),
        (file / "crate", f"in the way={file}. Move that file, or name another folder."),
    ):
        with pytest.raises(RunError) as refusal:
            exports.write_crate(run, target)

        assert str(refusal.value).endswith(message)
        assert file.read_text() == "text"


@pytest.mark.parametrize(
    ("form", "option"), [("opentelemetry", "--out"), ("ro-crate", "--verdicts")]
)
def test_an_option_of_the_other_form_is_refused(
    form: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option that the form would ignore is refused by name."""
    assert main(["record", "export", str(PUBLISHED), "--as", form, option, "x"]) == 2
    assert capsys.readouterr().err.endswith(
        f"{option} must stand with a form that uses it; got {option}=x with --as {form}. "
        "Leave it out, or name the other form.\n"
    )


def test_the_command_exports_a_published_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both forms of a published run are written or printed, and end with 0."""
    out = str(tmp_path / "crate")
    assert main(["record", "export", str(PUBLISHED), "--as", "ro-crate", "--out", out]) == 0
    assert (tmp_path / "crate" / "ro-crate-metadata.json").is_file()
    capsys.readouterr()
    assert main(["record", "export", str(PUBLISHED), "--as", "opentelemetry"]) == 0
    assert json.loads(capsys.readouterr().out)["attributes"]["gen_ai.operation.name"]
    assert main(["record", "export", str(PUBLISHED), "--as", "ro-crate"]) == 2
    assert "needs a folder: got --out=None" in capsys.readouterr().err
