"""Profiles: strict in names and types, with messages that say what to do."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml
from support import read_cases

from labkit.errors import ProfileError
from labkit.profiles import Profile, load_profile, parse_profile, profile_names, write_profile


def as_yaml(profile: Profile, case: dict) -> str:
    """Return a profile's text with one change."""
    fields = {**profile.to_json(), **case.get("change", {})}
    fields.pop(case.get("drop", ""), None)
    return yaml.safe_dump(fields)


def test_the_four_profiles_load() -> None:
    """Each file of data/profiles is a profile, and the four of the lab are among them."""
    names = profile_names()

    assert {"quick", "cpu", "gpu", "llama-3.2-1b"} <= set(names)
    assert [load_profile(name).name for name in names] == names


def test_a_profile_round_trips(quick: Profile) -> None:
    """A profile written as YAML reads back equal."""
    assert parse_profile(as_yaml(quick, {}), source="a test", name="quick") == quick


def test_the_cpu_profile_has_the_chapters_size() -> None:
    """The cpu profile runs 12 passages of 300 tokens for 48 steps, and 3 in the RoPE row."""
    cpu = load_profile("cpu")

    assert (cpu.prompts, cpu.prompt_tokens, cpu.steps, cpu.rope_prompts) == (12, 300, 48, 3)
    assert (cpu.model, cpu.dtype, cpu.knobs, cpu.probes) == ("embedded", "float16", "all", "all")


def test_the_gpu_profile_is_the_cpu_profile_elsewhere() -> None:
    """The gpu profile differs from cpu in name, words and device only, so tables compare."""
    cpu, gpu = load_profile("cpu"), load_profile("gpu")

    assert (
        dataclasses.replace(gpu, name=cpu.name, description=cpu.description, device=cpu.device)
        == cpu
    )


def test_a_hub_model_has_its_commit() -> None:
    """A profile with a hub id names the commit in full, so the same weights are meant for ever."""
    llama = load_profile("llama-3.2-1b")

    assert llama.revision is not None
    assert len(llama.revision) == 40


@pytest.mark.parametrize("case", read_cases("profiles_refused.json"), ids=lambda case: case["why"])
def test_a_broken_profile_is_refused(case: dict, quick: Profile) -> None:
    """Each slip is refused, and the text names the field, its value and what must hold."""
    with pytest.raises(ProfileError) as refusal:
        parse_profile(as_yaml(quick, case), source="a test", name="quick")

    assert case["message"] in str(refusal.value)


@pytest.mark.parametrize("text", ["[1, 2]", "name: [", "", "\t"])
def test_a_text_that_is_no_mapping_is_refused(text: str) -> None:
    """A list, broken YAML and an empty file are no profiles."""
    with pytest.raises(ProfileError, match="a test"):
        parse_profile(text, source="a test", name="quick")


def test_a_field_that_stands_twice_is_refused(quick: Profile) -> None:
    """Of two values YAML keeps the last; here the field and its line are named."""
    text = as_yaml(quick, {}) + "prompts: 3\n"
    line = text.count("\n")
    with pytest.raises(ProfileError, match=f"'prompts' again in a test, line {line}"):
        parse_profile(text, source="a test", name="quick")
    nested = as_yaml(quick, {}).replace("float32_lane:\n", "float32_lane:\n  steps: 1\n")
    with pytest.raises(ProfileError, match="'steps' again"):
        parse_profile(nested, source="a test", name="quick")


@pytest.mark.parametrize("value", ["!!map foo", "!!set foo", "!!bool foo", "2026-13-01"])
def test_a_value_that_yaml_cannot_build_is_refused(value: str, quick: Profile) -> None:
    """A tag that its value does not fit, and a date that is none, are mistakes of the profile."""
    with pytest.raises(ProfileError, match="must be YAML; got a test"):
        parse_profile(f"{as_yaml(quick, {})}x: {value}\n", source="a test", name="quick")


def test_a_merge_key_gives_what_is_not_stated(quick: Profile) -> None:
    """Fields of a merged mapping count where the profile does not state its own."""
    stated = yaml.safe_load(as_yaml(quick, {}))
    del stated["prompts"]
    text = f"<<: {{prompts: 9, steps: 1}}\n{yaml.safe_dump(stated)}"

    merged = parse_profile(text, source="a test", name="quick")
    assert merged == dataclasses.replace(quick, prompts=9)


def test_an_unknown_name_gets_the_nearest() -> None:
    """A misspelt profile is refused with the name that was probably meant."""
    with pytest.raises(ProfileError) as refusal:
        load_profile("quik")

    assert str(refusal.value) == (
        "A profile must be one of the lab's; got profile='quik'. Did you mean 'quick'?"
    )


def test_a_profile_of_ones_own_is_read_from_its_file(tmp_path: Path, quick: Profile) -> None:
    """A YAML file anywhere is a profile; one that is missing is named."""
    own = tmp_path / "mine.yaml"
    own.write_text(as_yaml(quick, {"change": {"name": "mine", "steps": 3}}))

    assert load_profile(own).steps == 3
    with pytest.raises(ProfileError, match=r"got path=.*gone\.yaml"):
        load_profile(tmp_path / "gone.yaml")


def test_a_relative_file_is_found_from_any_folder(
    tmp_path: Path, quick: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path relative to the clone is found from elsewhere; one in the working folder comes first.

    Notebooks run in their own folder, and get their profile's path relative to the clone.
    """
    monkeypatch.chdir(tmp_path)
    assert load_profile("data/profiles/quick.yaml") == quick

    near = tmp_path / "data" / "profiles" / "quick.yaml"
    near.parent.mkdir(parents=True)
    near.write_text(as_yaml(quick, {"change": {"steps": 3}}))
    assert load_profile("data/profiles/quick.yaml").steps == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"name: \xff\xfe", "UTF-8", id="another-encoding"),
        pytest.param(None, "A profile's file must exist", id="a-folder"),
    ],
)
def test_a_file_that_is_no_text_is_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    """A file in another encoding and a folder are refused by name, without a traceback."""
    own = tmp_path / "mine.yaml"
    own.mkdir() if content is None else own.write_bytes(content)

    with pytest.raises(ProfileError, match=message) as refusal:
        load_profile(own)

    assert "mine.yaml" in str(refusal.value)


def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path, quick: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that the reader may not open is refused with the system's reason."""
    own = tmp_path / "mine.yaml"
    own.write_text(as_yaml(quick, {}))

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ProfileError, match=r"mine\.yaml, error=Permission denied"):
        load_profile(own)


def test_a_written_profile_reads_back_equal(tmp_path: Path, quick: Profile) -> None:
    """A profile that was written to a file is the profile that is read from it."""
    changed = dataclasses.replace(quick, knobs=("float32",), description="Größer: 'x' # y")
    write_profile(changed, tmp_path / "quick.yaml")

    assert load_profile(tmp_path / "quick.yaml") == changed


def test_a_profile_cannot_be_changed(quick: Profile) -> None:
    """A profile in force stays as it was read."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick.steps = 9  # type: ignore[misc]
