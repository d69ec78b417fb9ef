"""The experiments that compare no sessions: what they find, store and say of it."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny

from labkit import models, probes
from labkit.errors import ConfigError, ModelError, ProbeError, ProfileError
from labkit.experiments import (
    _release_asking,
    admission,
    fallbacks,
    fingerprints,
    run_section,
)
from labkit.profiles import Profile
from labkit.record import read_record
from labkit.results import read_results


def test_the_fingerprint_table_has_its_ten_rows(tmp_path: Path) -> None:
    """The ten configs come out as flat rows, are stored, and are counted in the summary."""
    section = fingerprints.run("quick", tmp_path)

    assert len(section["rows"]) == section["summary"]["configs"] == 10
    assert read_results(tmp_path)["fingerprints"] == section
    names = {row["name"] for row in section["rows"]}
    assert {"gpt2", "llama-3.2-1b", "gemma-2-2b", "smollm2-135m-instruct"} <= names
    nested = [k for row in section["rows"] for k, v in row.items() if isinstance(v, dict | list)]
    assert nested == []
    assert sum(section["summary"]["attention_kinds"].values()) == 10


def test_other_configs_can_be_read(tmp_path: Path) -> None:
    """A folder of one's own gives its rows, and a broken file in it is named."""
    config = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "n_positions": 16}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config))

    (row,) = fingerprints.run(paths=[tmp_path / "mine"])["rows"]
    assert (row["name"], row["num_layers"]) == ("mine", 2)

    (tmp_path / "mine" / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json"):
        fingerprints.run(paths=[tmp_path / "mine"])


def test_the_twelve_cases_are_stored_with_every_reason(tmp_path: Path) -> None:
    """The twelve cases are decided as expected, with the rules that their file names."""
    seen: list[tuple[int, int, str]] = []
    section = admission.run(
        "quick", tmp_path, progress=lambda done, total, label: seen.append((done, total, label))
    )

    assert [row["number"] for row in section["rows"]] == list(range(1, 13))
    for row in section["rows"]:
        assert row["outcome"] == row["expected"], row["case"]
        assert sorted(r["rule"] for r in row["reasons"]) == sorted(row["expected_rules"])
    assert read_results(tmp_path)["admission"] == section
    assert seen[-1][:2] == (12, 12)


def test_nothing_is_stored_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a run folder the section is only returned."""
    monkeypatch.chdir(tmp_path)
    admission.run()

    assert list(tmp_path.iterdir()) == []


def test_what_was_learned_joins_the_record(tmp_path: Path, quick: Profile) -> None:
    """What an experiment finds out while it runs stands in the record beside its section."""
    run_section(
        "admission",
        lambda: {"rows": [], "summary": {}},
        profile=quick,
        run_dir=tmp_path,
        learned=lambda: {"identity.prompts": "abc"},
    )

    run = read_record(tmp_path)
    assert run.in_force("identity.prompts") == "abc"
    assert run.in_force("evaluation.profile")["name"] == "quick"


def test_an_unknown_profile_is_refused_before_anything(tmp_path: Path) -> None:
    """A misspelt profile is refused and no folder is made."""
    with pytest.raises(ProfileError, match="quik"):
        admission.run("quik", tmp_path / "run")

    assert not (tmp_path / "run").exists()


@pytest.fixture
def unaskable(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let every probe be not askable, and return the ids that were asked for."""
    asked: list[str] = []

    def pretend(
        environment: object, ids: list[str], *, request: object, told: Callable[[str], None]
    ) -> _release_asking.Asked:
        asked.extend(ids)
        for name in ids:
            told(name)
        return _release_asking.Asked(stack={}, rows={}, unanswered=dict.fromkeys(ids, "a test"))

    monkeypatch.setattr(fallbacks, "ask_release", pretend)
    return asked


def test_the_thirteen_probes_stand_apart_from_those_beyond(
    unaskable: list[str], tmp_path: Path
) -> None:
    """Rows hold the thirteen in order, the others stand beside them, all are reported."""
    seen: list[tuple[int, int]] = []
    section = fallbacks.run(
        "quick", tmp_path, progress=lambda done, total, _: seen.append((done, total))
    )

    assert [row["number"] for row in section["rows"]] == list(range(1, 14))
    assert {row["number"] for row in section["beyond"]} <= {None}
    assert len(unaskable) == len(section["rows"]) + len(section["beyond"])
    assert seen[-1] == (len(unaskable), len(unaskable))
    assert section["summary"]["asked"] == 0
    assert read_results(tmp_path)["fallbacks"] == section


def test_a_profile_may_name_its_probes(unaskable: list[str], quick: Profile) -> None:
    """The probes are those asked for, else those of the profile."""
    some = dataclasses.replace(quick, probes=("right_padding_in_a_batch",))
    fallbacks.run(some)
    fallbacks.run(some, probes=["chat_template_missing"])

    assert unaskable == ["right_padding_in_a_batch", "chat_template_missing"]


def test_probes_are_asked_with_the_profiles_model_in_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: Profile
) -> None:
    """A folder named from here is found by the process, and the run's record says which it was."""
    tiny.save(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    asked = fallbacks.run(
        dataclasses.replace(quick, model="mine"),
        tmp_path / "run",
        probes=["temperature_without_sampling", "head_size_of_its_own"],
    )
    (row,) = asked["rows"]

    assert (row["outcome"], row["did_it"]) == ("warned", False)
    assert asked["beyond"][0]["evidence"]["measured"]["built"] == 16
    digest = models.describe("mine").digest
    assert read_record(tmp_path / "run").in_force("identity.checkpoint") == digest


def test_a_probe_of_ones_own_is_asked_where_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe that only this process knows is asked here, beside the lab's own, and reported."""
    monkeypatch.setattr(probes._registry, "REGISTRY", dict(probes.REGISTRY))

    @probes.probe("of_my_own", asks="whether this process runs it")
    def of_my_own(context: probes.ProbeContext) -> probes.Evidence:
        return probes.not_askable(f"asked in {os.getpid()}", on=context.device)

    told: list[str] = []
    section = fallbacks.run(
        "quick",
        tmp_path,
        probes=["of_my_own", "head_size_of_its_own"],
        progress=lambda done, total, probe: told.append(f"{done} of {total} {probe}"),
    )
    mine, ours = section["beyond"]

    assert mine["why_not_askable"] == f"asked in {os.getpid()}"
    assert ours["outcome"] == "silent"
    assert told == ["1 of 2 head_size_of_its_own", "2 of 2 of_my_own"]


def test_a_model_that_cannot_be_loaded_ends_the_probes(tmp_path: Path, quick: Profile) -> None:
    """Spoilt weights are named as they are without a process between, and nothing is stored."""
    tiny.save(tmp_path / "mine")
    (tmp_path / "mine" / "model.safetensors").write_bytes(b"spoilt")
    with pytest.raises(ModelError, match="safetensors"):
        fallbacks.run(
            dataclasses.replace(quick, model=str(tmp_path / "mine")),
            tmp_path / "run",
            probes=["temperature_without_sampling"],
        )

    assert read_results(tmp_path / "run")["fallbacks"] is None


def test_an_unknown_probe_is_refused(unaskable: list[str]) -> None:
    """A misspelt probe is refused before any runs."""
    with pytest.raises(ProbeError, match="right_pading"):
        fallbacks.run(probes=["chat_template_missing", "right_pading"])

    assert unaskable == []
