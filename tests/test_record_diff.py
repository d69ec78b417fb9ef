"""Two records: what each difference changes, what joins the identity, and what is not known."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, read_cases

from labkit import record
from labkit.cli import main
from labkit.errors import ResultsError
from labkit.record.diffing import ANOTHER, SAME, UNSHOWN
from labkit.record.measured import VERDICTS, Measured, MeasuredOption

CASES = read_cases("record_differences.json")
PLAIN = {
    "identity.checkpoint": "abc",
    "identity.weights_sample": "def",
    "identity.tokenizer": "ghi",
    "identity.chat_template": "none",
    "identity.generation_config": "none",
    "execution.weight_rounding": "none",
    "execution.rope": {"kind": "default", "frequencies": "jkl"},
    "execution.window": "none",
    "execution.truncation": "none",
    "execution.kv_cache_dtype": "float16",
    "execution.other_changes": "none",
    "execution.decoding": "greedy",
    "execution.attention": "sdpa",
    "execution.prefill_pieces": [160],
    "execution.batch_rows": 1,
    "substrate.cores": 2,
}


def make(**changes: object) -> record.RunRecord:
    """Make a finished record of the plain run with some fields changed; None takes one away."""
    values = {**PLAIN, **changes}
    started = record.RunRecord(
        id="a", status="started", command="chapter", started_utc="2026-01-01T00:00:00Z"
    )
    return record.with_stages(started, "observed", values)


def measured(**verdicts: str) -> Measured:
    """Make verdicts from `knob_value="verdict"`; the value is the knob's own parameter."""
    names = {"chunked_prefill": "chunk", "padded_batch": "rows"}
    options = []
    for spelled, verdict in verdicts.items():
        knob, _, value = spelled.rpartition("_")
        params = {names[knob]: int(value)} if knob in names else {}
        name = knob if knob in names else spelled
        options.append(
            MeasuredOption(
                knob=name, params=params, label=spelled, verdict=verdict.replace("_", " ")
            )
        )
    return Measured(source="a test", options=tuple(options))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_a_difference_is_judged(case: dict[str, Any]) -> None:
    """Each case's field gets its effect, the reason says how it is known, and so the outcome."""
    verdicts = measured(**case.get("measured", {}))
    found = record.diff_records(make(), make(**case["second"]), verdicts)

    assert [(item.field, item.effect) for item in found.differences] == [
        (field, case["effect"]) for field in case["second"]
    ]
    assert all(case["reason"] in item.reason for item in found.differences)
    assert found.outcome == case["outcome"]


def test_equal_records_are_of_the_same_artefact() -> None:
    """Two records that agree, and lack nothing of the identity, are of one artefact."""
    found = record.diff_records(make(), make())

    assert (found.outcome, found.differences, found.unshown) == (SAME, (), ())
    assert "substrate.python" in found.not_compared


def test_what_neither_recorded_is_never_the_same() -> None:
    """Two records that agree and do not say which window was in force prove nothing."""
    gap = make(**{"execution.window": None})
    found = record.diff_records(gap, gap)

    assert (found.outcome, found.unshown) == (UNSHOWN, ("execution.window",))
    assert record.identify(gap).missing == ("execution.window",)


def test_a_deployment_is_another_artefact() -> None:
    """Exercise 8: a window, rounded weights and stretched positions each change the artefact."""
    deployed = make(
        **{
            "execution.window": {"size": 4096, "sinks": 4},
            "execution.weight_rounding": {"bits": 8},
            "execution.rope": {"kind": "yarn", "factor": 4.0, "frequencies": "xyz"},
            "identity.weights_sample": "uvw",
            "execution.prefill_pieces": [512, 88],
            "substrate.cores": 64,
        }
    )
    found = record.diff_records(make(), deployed, measured(chunked_prefill_512="preserving"))

    assert found.outcome == ANOTHER
    assert {item.field: item.effect for item in found.differences} == {
        "identity.weights_sample": "artefact",
        "execution.weight_rounding": "artefact",
        "execution.rope": "artefact",
        "execution.window": "artefact",
        "execution.prefill_pieces": "arithmetic",
        "substrate.cores": "place",
    }
    assert record.identify(make()).sha256 != record.identify(deployed).sha256


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(PLAIN)))
def test_the_identity_is_of_the_artefact_alone(name: str) -> None:
    """The digest changes with each field of the artefact, and with no other."""
    other = [1, 2] if name.endswith("pieces") else 7 if isinstance(PLAIN[name], int) else "other"
    changes = record.identify(make(**{name: other})).sha256 != record.identify(make()).sha256

    assert changes == (record.fields_of_layers()[name].effect == "artefact")


def test_an_option_found_to_be_another_artefact_joins_the_identity() -> None:
    """A setting that is declared harmless is part of the identity once measured not to be."""
    chunked = make(**{"execution.prefill_pieces": [64, 64, 32]})
    plain = record.identify(chunked, measured(chunked_prefill_64="preserving"))
    raised = record.identify(chunked, measured(chunked_prefill_64="different artefact"))

    assert "execution.prefill_pieces" not in plain.fields
    assert raised.fields["execution.prefill_pieces"] == [64, 64, 32]
    assert plain.sha256 != raised.sha256


def test_what_joins_the_identity_must_be_on_both_sides() -> None:
    """A setting measured to be another artefact, and not recorded by one, leaves it open."""
    silent, chunked = (
        make(**{"execution.prefill_pieces": None}),
        make(**{"execution.prefill_pieces": [64, 64, 32]}),
    )
    verdicts = measured(chunked_prefill_64="different artefact")
    for pair in ((silent, chunked), (chunked, silent)):
        found = record.diff_records(*pair, verdicts)

        assert (found.outcome, found.unshown) == (UNSHOWN, ("execution.prefill_pieces",))
        assert "chunked_prefill_64: different artefact" in found.differences[0].reason


def test_the_verdicts_are_those_of_the_schema() -> None:
    """The words that a reader of verdicts knows are those that a preservation section may hold."""
    stored = json.loads((ROOT / "labkit/sections/02_preservation.schema.json").read_text())
    rows = stored["properties"]["rows"]["items"]["properties"]

    assert list(VERDICTS) == rows["verdict"]["enum"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"option": 5}, "option=5 must be a text"),
        ({"label": None}, "label=None must be a text"),
        ({"params": None}, "params=None must be an object"),
        ({"verdict": "banana"}, "verdict='banana' must be one of preserving, "),
        ({"verdict": ["preserving"]}, "verdict=['preserving'] must be one of preserving, "),
    ],
)
def test_an_ill_typed_verdict_is_refused(
    tmp_path: Path, wrong: dict[str, object], message: str
) -> None:
    """A row that says no verdict of an option is named, and counts for nothing."""
    row = {"option": "a", "params": {}, "label": "a", "verdict": "preserving", **wrong}
    (tmp_path / "results.json").write_text(json.dumps({"preservation": {"rows": [row]}}))

    with pytest.raises(ResultsError) as refusal:
        record.read_measured(tmp_path)

    assert f"error=ValueError: {message}" in str(refusal.value)


def test_the_published_verdicts_are_read() -> None:
    """The published run's rows speak of the fields that their options set."""
    verdicts = record.read_measured(ROOT / "results/published-cpu")
    info = record.fields_of_layers()["execution.window"]

    (row,) = verdicts.of_value(info, {"size": 64, "sinks": 4})
    assert (row.knob, row.verdict) == ("window", "different artefact")
    assert len(verdicts.of_others(info, {"size": 48, "sinks": 0})) == 3


@pytest.mark.parametrize("text", ["{", "{}", '{"preservation": null}', '{"preservation": {}}'])
def test_results_without_verdicts_are_refused(tmp_path: Path, text: str) -> None:
    """A file that measured no option cannot be taken for one that found nothing."""
    (tmp_path / "results.json").write_text(text)

    with pytest.raises(ResultsError, match="must come from results with a preservation section"):
        record.read_measured(tmp_path)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, str]:
    """Return the folders of a plain run and of one with a window."""
    for name, made in (("a", make()), ("b", make(**{"execution.window": {"size": 64}}))):
        (tmp_path / name).mkdir()
        ended = dataclasses.replace(
            made, status="finished", finished_utc="2026-01-01T00:01:00Z", elapsed_s=60.0
        )
        (tmp_path / name / "record.json").write_text(json.dumps(ended.to_json()))
    return str(tmp_path / "a"), str(tmp_path / "b")


def test_the_command_compares_and_names(
    folders: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`diff` ends with 0 for one artefact and 1 for two; `identity` and `validate` with 0."""
    plain, windowed = folders
    assert main(["record", "diff", plain, plain]) == 0
    assert capsys.readouterr().out.startswith("same artefact\n")
    assert main(["record", "diff", plain, windowed, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["outcome"], said["counts"]["artefact"]) == ("another artefact", 1)
    assert main(["record", "identity", windowed, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fields"]["execution.window"] == {"size": 64}
    assert main(["record", "validate", plain]) == 0
    assert "a valid record of 0 files" in capsys.readouterr().out
    assert main(["record", "show", windowed]) == 0
    assert '{"size":64}' in capsys.readouterr().out


def test_the_command_tells_what_it_cannot_say(
    folders: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a field of the identity `diff` and `identity` end with 2; a failed run is named."""
    plain, other = folders
    file = Path(other) / "record.json"
    stored = json.loads(file.read_text())
    del stored["execution"]["window"]["observed"]
    failed = {"status": "failed", "failure": {"type": "OSError", "message": "no room"}}
    file.write_text(json.dumps({**stored, **failed}))

    assert main(["record", "diff", plain, other]) == 2
    assert capsys.readouterr().out.startswith(
        "not shown to be the same artefact\nfirst run: finished; second run: failed\n"
    )
    assert main(["record", "identity", other]) == 2
    assert "not whole, as these were not recorded: execution.window" in capsys.readouterr().out


def test_a_record_cannot_steer_the_terminal(
    folders: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What another's record holds is shown, its control characters escaped and on one line."""
    file = Path(folders[0]) / "record.json"
    stored = json.loads(file.read_text())
    stored["execution"]["device"]["observed"] = "cpu\x1b[2J\nall is well"
    failed = {"status": "failed", "failure": {"type": "OSError", "message": "\x1b]0;mine\x07"}}
    file.write_text(json.dumps({**stored, **failed}))

    assert main(["record", "show", folders[0]]) == 0
    shown = capsys.readouterr().out
    assert r"cpu\x1b[2J\nall is well" in shown
    assert "\x1b" not in shown and "\x07" not in shown


def test_a_tampered_run_is_not_called_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run with a file that its record does not vouch for is first said to have one."""
    published = ROOT / "results/published-quick/record.json"
    (tmp_path / "record.json").write_text(published.read_text(encoding="utf-8"), encoding="utf-8")

    assert main(["record", "validate", str(tmp_path)]) == 1
    first, *faults = capsys.readouterr().out.splitlines()
    assert first.endswith(": its files are not all those that the record vouches for")
    assert faults and all(fault.startswith("artefact ") for fault in faults)


def test_the_command_refuses_by_name(
    folders: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A record of another version ends with status 2 and is named, without a traceback."""
    file = Path(folders[0]) / "record.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema_version": 1}))

    assert main(["record", "show", folders[0]]) == 2
    assert "must have schema_version=2; got schema_version=1" in capsys.readouterr().err
