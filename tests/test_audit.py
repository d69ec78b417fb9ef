"""Is a run fit to be read: each check, each gate in its order, and the router."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sections import least_section
from support import read_cases

from labkit import audit
from labkit.audit._registry import CHECKS, GATES
from labkit.cli import main
from labkit.errors import ResultsError
from labkit.record import (
    NOTHING_MEASURED,
    check_artefacts,
    fields_of_layers,
    read_record,
    with_stages,
    write_replay,
)
from labkit.results import RunFolder

CHECK_CASES = read_cases("preflight.json")
GATE_CASES = read_cases("gates.json")
# A value of each type that a field may hold.
VALUES: dict[str, Any] = {"string": "x", "integer": 2, "object": {"a": 1}, "array": [2]}


def make_run(folder: Path, **changes: object) -> Path:
    """Make a run that passes everything, but for some fields; None takes a field away."""
    seen = {name: VALUES[info.holds[0]] for name, info in fields_of_layers().items()}
    seen |= {"evaluation.harness": {"id": "a" * 40, "dirty": False}}
    control = {
        "knob": "window_4096_0",
        "kind": "control",
        "runs": 1,
        "identical": 1,
        "verdict": changes.pop("control", "preserving"),
        "sentence": "",
    }
    outputs = changes.pop("outputs", [{"name": "a", "ids": [1, 2]}])
    requested = {"execution.device": "x", **changes.pop("requested", {})}  # type: ignore[dict-item]
    resolved = dict.fromkeys(seen) | changes.pop("resolved", {})  # type: ignore[operator]
    with RunFolder(folder) as held:
        held.start(command="preservation", profile={"name": "quick"})
        section = least_section("preservation", elapsed_s=1.0)
        held.write_section("preservation", {**section, "rows": [control]})
        write_replay(folder, prompts=[], outputs=outputs, traces=[])  # type: ignore[arg-type]
        held.observe(requested=requested, resolved=resolved, observed=seen | changes)
        held.finish()
    return folder


def spoil(folder: Path, name: str) -> None:
    """Do to a run what a case names."""
    record = folder / "record.json"
    stored = json.loads(record.read_text())
    if name == "failed":
        failure = {"type": "OSError", "message": "no room"}
        record.write_text(json.dumps({**stored, "status": "failed", "failure": failure}))
    elif name == "no files":
        record.write_text(json.dumps({**stored, "artefacts": []}))
    elif name == "half-written":
        (folder / ".results.json.x.part").write_text("")
    elif name == "another file":
        (folder / "replay" / "traces.jsonl").write_text("{}\n")
    elif name == "torn results":
        (folder / "results.json").write_text("{")
    elif name == "no replay":
        kept = [item for item in stored["artefacts"] if not item["path"].startswith("replay/")]
        record.write_text(json.dumps({**stored, "artefacts": kept}))
    elif name == "no second stage":
        for stated in stored["execution"].values():
            stated.pop("requested", None)
            stated.pop("resolved", None)
        record.write_text(json.dumps(stored))
    elif name == "no results":
        (folder / "results.json").unlink()
        (folder / "replay" / "outputs.jsonl").write_text("")
    else:
        raise AssertionError(name)


def test_a_whole_run_passes_everything(tmp_path: Path) -> None:
    """The run that the cases spoil passes every check and every gate."""
    folder = make_run(tmp_path / "run")

    assert {item.answer for item in audit.preflight(folder)} == {"holds"}
    assert {item.answer for item in audit.pass_gates(folder)} == {"holds"}


@pytest.mark.parametrize("case", CHECK_CASES, ids=lambda case: case["why"])
def test_a_check_finds_what_is_missing(case: dict[str, Any], tmp_path: Path) -> None:
    """Each case spoils a run in one place, and its check says so with the name and the value."""
    folder = make_run(tmp_path / "run", **case.get("fields", {}))
    if "spoil" in case:
        spoil(folder, case["spoil"])
    found = {item.name: item for item in audit.preflight(folder)}

    assert found[case["check"]].answer == case["answer"]
    assert case["found"] in found[case["check"]].found


@pytest.mark.parametrize("case", GATE_CASES, ids=lambda case: case["why"])
def test_the_first_gate_that_is_shut_ends_the_questions(
    case: dict[str, Any], tmp_path: Path
) -> None:
    """Each case shuts one gate; those before it hold, and those after it are not evaluated."""
    folder = make_run(tmp_path / "run", **case.get("fields", {}))
    if "spoil" in case:
        spoil(folder, case["spoil"])
    findings = audit.pass_gates(folder)
    place = case["gate"] - 1

    assert [item.answer for item in findings[:place]] == ["holds"] * place
    assert findings[place].answer == case["answer"]
    assert case["found"] in findings[place].found
    assert all(item.answer == "not evaluated" for item in findings[place + 1 :])
    assert all(item.found == f"gate {case['gate']} is shut" for item in findings[place + 1 :])


def test_every_check_and_gate_has_a_case() -> None:
    """No check and no gate is without a case in which it fails."""
    assert {case["check"] for case in CHECK_CASES} == set(CHECKS)
    assert {case["gate"] for case in GATE_CASES} == {int(gate.stage) for gate in GATES.values()}
    assert sorted(int(gate.stage) for gate in GATES.values()) == [1, 2, 3, 4, 5, 6]


def test_a_folder_without_a_record_is_refused(tmp_path: Path) -> None:
    """Without a record nothing is said to be clean."""
    for ask in (audit.preflight, audit.pass_gates):
        with pytest.raises(ResultsError, match=r"must hold record\.json"):
            ask(tmp_path)


def test_the_router_compares_the_right_fields_first(tmp_path: Path) -> None:
    """A greedy difference points to attention first, then the rest; what is not known is named."""
    left = read_record(make_run(tmp_path / "a"))
    changed = {"execution.attention": "eager", "substrate.cores": 9, "execution.cache": None}
    right = with_stages(left, "observed", changed)
    found = audit.route(left, right, "greedy output differs", NOTHING_MEASURED)

    assert [item.field for item in found.first] == ["execution.attention"]
    assert found.unknown == ("execution.cache",)
    assert "identity.checkpoint" in found.alike
    assert [item.field for item in found.then] == ["substrate.cores"]
    assert found.elsewhere


def test_the_symptoms_name_fields_that_exist() -> None:
    """Each of the seven symptoms points to fields of a record, each once."""
    known = fields_of_layers()

    assert len(audit.SYMPTOMS) == 7
    for symptom in audit.SYMPTOMS.values():
        assert set(symptom.first) <= set(known)
        assert len(set(symptom.first)) == len(symptom.first)


def test_an_unknown_symptom_is_refused_by_name(tmp_path: Path) -> None:
    """A misspelt symptom is answered with the one that is near."""
    left = read_record(make_run(tmp_path / "a"))

    with pytest.raises(
        ResultsError, match=r"got symptom='score change'\. Did you mean 'score changed'"
    ):
        audit.route(left, left, "score change", NOTHING_MEASURED)


def test_the_commands_end_with_what_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`preflight` and `gates` end with 0, 1 and 2 as they hold, do not, or cannot say."""
    whole, spoilt = make_run(tmp_path / "a"), make_run(tmp_path / "b")
    unasked = make_run(tmp_path / "c", requested={"execution.device": None})
    spoil(spoilt, "another file")
    assert check_artefacts(read_record(spoilt), spoilt) != []

    for action in ("preflight", "gates"):
        assert main(["record", action, str(whole)]) == 0
        assert main(["record", action, str(whole / "record.json")]) == 0
        assert main(["record", action, str(spoilt), "--json"]) == 1
        assert main(["record", action, str(unasked)]) == 2
    capsys.readouterr()
    symptom = ["--symptom", "allocation fails"]
    assert main(["record", "route", str(whole), str(whole), *symptom, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["first"] == []
    assert main(["record", "route", str(whole), str(spoilt), *symptom]) == 0
    assert "nothing differs where one looks first" in capsys.readouterr().out


def test_a_line_of_the_outputs_that_is_no_object_is_refused(tmp_path: Path) -> None:
    """A list is no output: it is named with its line, and counts for nothing."""
    folder = make_run(tmp_path / "run")
    with (folder / "replay" / "outputs.jsonl").open("a") as lines:
        lines.write("[1]\n")

    for ask in (audit.preflight, audit.pass_gates):
        with pytest.raises(ResultsError) as refusal:
            ask(folder)

        assert str(refusal.value) == (
            f"Outputs must be lines of JSON; got path={folder}/replay/outputs.jsonl: "
            "line 2 is of type list, not an object."
        )
