"""The preservation experiment as a whole, on a tiny model: complete, resumable, honest."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiny

from labkit.backends import Backend
from labkit.errors import KnobError, ModelError, NotApplicable, PromptError
from labkit.experiments import _lanes, preservation
from labkit.experiments._passages import load_passages
from labkit.knobs import KNOBS, knob
from labkit.profiles import Lane, Profile, load_profile
from labkit.results import read_results

Measure = Callable[..., dict]
FEW = ["chunked_prefill:chunk=64", "window:size=64", "float32", "padded_batch:rows=4"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkpoint folder with a tiny Llama."""
    return tiny.save(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def profile(checkpoint: Path) -> Profile:
    """Return a profile of the smallest size, on the tiny model."""
    return dataclasses.replace(
        load_profile("quick"),
        model=str(checkpoint),
        prompts=3,
        prompt_tokens=90,
        steps=4,
        rope_prompts=2,
        float32_lane=Lane(prompts=2, steps=3),
    )


def without_times(section: dict) -> dict:
    """Return a section without what differs from run to run."""
    runs = [{k: v for k, v in run.items() if k != "elapsed_s"} for run in section["runs"]]
    return {k: v for k, v in section.items() if k != "elapsed_s"} | {"runs": runs}


def test_every_row_is_run_on_its_prompts(profile: Profile) -> None:
    """All thirteen options run, on all prompts or on few, and the summary counts them."""
    section = preservation.run(profile)
    runs = {row["knob"]: row["runs"] for row in section["rows"]}

    assert runs.pop("rope_scaling_2_0") == 2
    assert set(runs.values()) == {3}
    assert section["summary"]["runtime_runs"] == 7 * 3
    assert section["summary"]["model_runs"] == 4 * 3 + 2
    assert len(section["runs"]) == 13 * 3 - 1
    assert section["summary"]["verdicts_as_expected"] == 13


def test_a_run_folder_gets_results_and_a_record(profile: Profile, tmp_path: Path) -> None:
    """The section is in results.json, the model's digest in its run, and no array is left."""
    section = preservation.run(profile, tmp_path / "run", knobs=FEW)
    stored = read_results(tmp_path / "run" / "results.json")

    assert without_times(stored["preservation"]) == without_times(section)
    assert len(stored["run"]["model"]["digest"]) == 64
    assert stored["run"]["status"] == "finished"
    assert not (tmp_path / "run" / "work").exists()


def test_a_finished_run_runs_nothing_again(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every unit in the journal, no model is run and the section is the same."""
    first = preservation.run(profile, tmp_path / "run", knobs=FEW)
    for name in ("greedy", "compare", "follow"):
        monkeypatch.setattr(_lanes, name, _not_again)
    second = preservation.run(profile, tmp_path / "run", knobs=FEW)

    assert without_times(second) == without_times(first) | {"runs": without_times(first)["runs"]}


def _not_again(*_: object, **__: object) -> None:
    raise AssertionError("a unit ran again")


class Killed(BaseException):
    """Stands for a kill between two passes."""


@pytest.mark.parametrize("after", [1, 4, 9, 13, 20])
def test_an_interrupted_run_ends_like_an_undisturbed_one(
    profile: Profile, tmp_path: Path, after: int
) -> None:
    """Stopping after any pass and calling again gives the section of one undisturbed run."""

    def stop(done: int, total: int, label: str) -> None:
        if done == after:
            raise Killed

    with pytest.raises(Killed):
        preservation.run(profile, tmp_path / "run", knobs=FEW, progress=stop)
    resumed = preservation.run(profile, tmp_path / "run", knobs=FEW)

    assert without_times(resumed) == without_times(preservation.run(profile, knobs=FEW))


def test_only_a_changed_option_runs_again(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another chunk size runs its own passes and no other option's."""
    preservation.run(profile, tmp_path / "run", knobs=FEW)
    measured: list[str] = []
    whole = _lanes.LaneRunner._measure

    def listen(self: _lanes.LaneRunner, option: object, units: list) -> None:
        measured.append(option.spelled)
        whole(self, option, units)

    monkeypatch.setattr(_lanes.LaneRunner, "_measure", listen)
    preservation.run(profile, tmp_path / "run", knobs=["chunked_prefill:chunk=7", *FEW[1:]])

    assert set(measured) == {"chunked_prefill:chunk=7"}


def test_a_torn_journal_line_is_reported_and_its_unit_runs_again(
    profile: Profile, tmp_path: Path
) -> None:
    """A line cut in half costs that unit alone, and the section names the line."""
    whole = preservation.run(profile, tmp_path / "run", knobs=FEW)
    journal = tmp_path / "run" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:5], lines[5][:40] + b"\n", *lines[6:]]))
    again = preservation.run(profile, tmp_path / "run", knobs=FEW)

    assert "line 6" in again["journal_problems"][0]
    assert without_times(again) | {"journal_problems": []} == without_times(whole)


def test_other_weights_are_another_run(
    profile: Profile, tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a weight changed, nothing measured before is reused."""
    from safetensors.torch import load_file, save_file

    changed = tmp_path / "changed"
    shutil.copytree(checkpoint, changed)
    weights = load_file(changed / "model.safetensors")
    weights["model.norm.weight"] *= 1.5
    save_file(weights, changed / "model.safetensors", metadata={"format": "pt"})
    preservation.run(profile, tmp_path / "run", knobs=FEW[:1])
    before = len((tmp_path / "run" / "journal.jsonl").read_text().splitlines())
    preservation.run(profile, tmp_path / "run", knobs=FEW[:1], model=str(changed))
    after = len((tmp_path / "run" / "journal.jsonl").read_text().splitlines())

    assert after == 2 * before


def test_an_option_that_does_not_apply_is_left_out_of_the_counts(profile: Profile) -> None:
    """A row that the model has no place for says so and counts no run."""

    @knob(kind="model", label="experts capped")
    def experts_capped(backend: Backend) -> Iterator[Backend]:
        """Refuse, as there are no experts."""
        raise NotApplicable("this model has no experts.")
        yield backend

    try:
        section = preservation.run(profile, knobs=["experts_capped", *FEW[:1]])
    finally:
        del KNOBS["experts_capped"]
    row = section["rows"][0]

    assert (row["verdict"], row["runs"]) == ("not applicable", 0)
    assert "has no experts" in row["sentence"]
    assert (section["summary"]["model_runs"], section["summary"]["not_applicable"]) == (0, 1)


def test_an_option_whose_effect_is_not_seen_is_never_preserving(profile: Profile) -> None:
    """An option that leaves the stack as it was is reported as not applied."""

    @knob(kind="runtime", label="pretends", expect=lambda: {"cache": "StaticCache"})
    def pretends(backend: Backend) -> Iterator[Backend]:
        """Yield the backend as it is."""
        yield backend

    try:
        row = preservation.run(profile, knobs=["pretends"])["rows"][0]
    finally:
        del KNOBS["pretends"]

    assert row["verdict"] == "not applied"
    assert "asked for cache='StaticCache'; the stack did cache='DynamicCache'" in row["sentence"]


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"prompts": 13}, PromptError, "at most the 12 frozen passages; got prompts=13"),
        ({"prompt_tokens": 250, "steps": 48}, PromptError, "model's 256 positions; .* = 298"),
        ({"model": "nowhere"}, ModelError, "got 'nowhere', which is none of these"),
        ({"knobs": ("chunked",)}, KnobError, "rows that do not exist: chunked"),
    ],
)
def test_a_run_that_cannot_be_is_refused_by_name(
    profile: Profile, changes: dict, error: type[Exception], says: str
) -> None:
    """Sizes, models and rows that cannot be are refused before any pass."""
    with pytest.raises(error, match=says):
        preservation.run(dataclasses.replace(profile, **changes))


def test_a_changed_passage_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A passage whose text no longer has its hash is refused by name."""
    stored = json.loads(_passages().read_text(encoding="utf-8"))
    stored["passages"][1]["text"] += " "
    changed = tmp_path / "passages.json"
    changed.write_text(json.dumps(stored), encoding="utf-8")
    monkeypatch.setattr("labkit.experiments._passages.data_file", lambda *_: changed)

    with pytest.raises(PromptError, match="passage p02 must have SHA-256"):
        load_passages(2)


def _passages() -> Path:
    from labkit.files import data_file

    return data_file("passages", "passages.json")


def test_the_passages_are_twelve_and_distinct() -> None:
    """There are twelve passages, each with its own text, long enough for any tokenizer."""
    passages = load_passages(12)

    assert len({passage.text for passage in passages}) == 12
    assert min(len(passage.text.split()) for passage in passages) >= 320
