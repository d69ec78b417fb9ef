"""The records experiment on a tiny model: three real runs, their records, and what differs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import sections
import tiny

from labkit import charts
from labkit.experiments import records
from labkit.record import check_artefacts, read_record
from labkit.results import read_results


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of the experiment."""
    from labkit.profiles import load_profile

    checkpoint = tiny.save(tmp_path_factory.mktemp("tiny"))
    folder = tmp_path_factory.mktemp("run")
    profile = dataclasses.replace(load_profile("quick"), model=str(checkpoint), prompt_tokens=80)
    records.run(profile, folder)
    return folder


def of_run(section: dict[str, Any], run: str) -> dict[str, str]:
    """Return the effect of each difference of a run."""
    return {row["field"]: row["effect"] for row in section["rows"] if row["run"] == run}


def test_the_deployed_run_is_another_artefact(home: Path) -> None:
    """Rounding, window and rotary positions are seen in the live model, the request beside them."""
    section = read_results(home)["records"]
    deployed = read_record(home / "records" / "deployed")
    of_artefact = {f for f, effect in of_run(section, "deployed").items() if effect == "artefact"}

    assert section["summary"]["deployed"] == "another artefact"
    assert of_artefact == {
        "identity.weights_sample",
        "execution.weight_rounding",
        "execution.rope",
        "execution.window",
    }
    assert deployed.stated("execution.window").requested == {"size": 64, "sinks": 4}
    assert deployed.in_force("execution.window") == {"size": 64, "sinks": 4}


def test_the_reordered_run_differs_in_its_arithmetic_alone(home: Path) -> None:
    """Eager attention and prompt pieces are seen, and keep the identity of the plain run."""
    section = read_results(home)["records"]
    identities = {run["run"]: run["identity"] for run in section["runs"]}

    assert of_run(section, "reordered") == {
        "execution.attention": "arithmetic",
        "execution.prefill_pieces": "arithmetic",
    }
    assert identities["plain"] == identities["reordered"] != identities["deployed"]
    assert all(run["missing"] == [] for run in section["runs"])


def test_each_record_vouches_for_its_replay_bundle(home: Path) -> None:
    """Results, prompts, outputs, traces and environment are there and are the run's own."""
    for name in records.RUNS:
        found = read_record(home / "records" / name)

        assert check_artefacts(found, home / "records" / name) == []
        assert [item.path for item in found.artefacts] == [
            "replay/environment.json",
            "replay/outputs.jsonl",
            "replay/prompts.jsonl",
            "replay/traces.jsonl",
            "results.json",
        ]


def test_the_plain_run_passes_its_gates(home: Path) -> None:
    """Every gate holds that asks for no control, and every check but the commit may be asked."""
    section = read_results(home)["records"]
    answers = {item["name"]: item["answer"] for item in section["preflight"]}
    answers.pop("from_a_commit")

    assert [item["answer"] for item in section["gates"]] == ["holds"] * 5 + ["not evaluated"]
    assert section["gates"][-1]["found"] == "1 outputs; not evaluated: controls, none was run"
    assert set(answers.values()) == {"holds"}


def test_the_tables_have_a_row_each() -> None:
    """A difference, a check and a gate have a row, with the reason or what was found."""
    section = sections.records()

    assert list(charts.record_table(section)["because"]) == ["declared"] * 4
    assert list(charts.audit_table(section)["answer"]) == ["missing"]
    assert list(charts.audit_table(section, "gates")["stage"]) == ["identity"]
