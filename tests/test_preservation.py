"""The preservation experiment as a whole, on a tiny model: complete, resumable, honest."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import json
import linecache
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiny

from labkit import models
from labkit.backends import Backend
from labkit.errors import KnobError, ModelError, NotApplicable, PromptError
from labkit.experiments import _lanes, preservation
from labkit.experiments._passages import load_passages
from labkit.knobs import KNOBS, knob
from labkit.profiles import Lane, Profile, load_profile
from labkit.record import read_record
from labkit.results import read_results

Measure = Callable[..., dict]
FEW = ["chunked_prefill:chunk=64", "window:size=64", "float32", "padded_batch:rows=4"]


@pytest.fixture(scope="module", autouse=True)
def _quick_collections() -> Iterator[None]:
    """Keep what is imported out of the collections that a run makes between its models."""
    gc.freeze()
    yield
    gc.unfreeze()


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
        float32_lane=Lane(prompts=3, steps=4),
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
    assert section["summary"]["measured_verdicts"] == 12
    assert section["summary"]["verdicts_as_expected"] == 12


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
    """With every unit in the journal, no model is loaded or run and the section is the same."""
    first = preservation.run(profile, tmp_path / "run", knobs=FEW)
    monkeypatch.setattr(models, "load", _not_again)
    for name in ("greedy", "compare", "follow"):
        monkeypatch.setattr(_lanes, name, _not_again)
    second = preservation.run(profile, tmp_path / "run", knobs=FEW)

    assert without_times(second) == without_times(first)


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
    whole = _lanes.LaneRunner.measured

    def listen(self: _lanes.LaneRunner, option: object, units: list) -> object:
        measured.extend([option.spelled] if units else [])
        return whole(self, option, units)

    monkeypatch.setattr(_lanes.LaneRunner, "measured", listen)
    preservation.run(profile, tmp_path / "run", knobs=["chunked_prefill:chunk=7", *FEW[1:]])

    assert set(measured) == {"chunked_prefill:chunk=7"}


def test_a_torn_journal_line_is_reported_and_its_unit_runs_again(
    profile: Profile, tmp_path: Path
) -> None:
    """A line cut in half costs that unit alone; the record names it, the section is the same."""
    whole = preservation.run(profile, tmp_path / "run", knobs=FEW)
    journal = tmp_path / "run" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:5], lines[5][:40] + b"\n", *lines[6:]]))
    again = preservation.run(profile, tmp_path / "run", knobs=FEW)

    (problem,) = read_record(tmp_path / "run").journal_problems
    assert problem == "journal.jsonl line 6: torn or not JSON; its unit runs again."
    assert without_times(again) == without_times(whole)


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


def test_an_option_that_does_not_apply_is_left_out_of_the_counts(
    profile: Profile, tmp_path: Path
) -> None:
    """A row that the model has no place for says so and counts no run."""

    @knob(kind="model", label="experts capped")
    def experts_capped(backend: Backend) -> Iterator[Backend]:
        """Refuse, as there are no experts."""
        raise NotApplicable("this model has no experts.")
        yield backend

    try:
        section = preservation.run(profile, tmp_path / "run", knobs=["experts_capped", *FEW[:1]])
    finally:
        del KNOBS["experts_capped"]
    row = section["rows"][0]

    assert (row["verdict"], row["runs"]) == ("not applicable", 0)
    assert "has no experts" in row["sentence"]
    assert (section["summary"]["model_runs"], section["summary"]["not_applicable"]) == (0, 1)


def test_an_option_whose_effect_is_not_seen_is_never_preserving(profile: Profile) -> None:
    """An option that leaves the stack as it was is reported as not applied."""

    @knob(kind="runtime", label="pretends", expect=lambda group: {"cache": "StaticCache"})
    def pretends(backend: Backend) -> Iterator[Backend]:
        """Yield the backend as it is."""
        yield backend

    try:
        row = preservation.run(profile, knobs=["pretends"])["rows"][0]
    finally:
        del KNOBS["pretends"]

    assert row["verdict"] == "not applied"
    assert "asked for cache='StaticCache'; the stack did cache='DynamicCache'" in row["sentence"]


def test_a_lone_prompt_makes_no_padded_batch(profile: Profile, tmp_path: Path) -> None:
    """With one prompt nothing is padded, and the row says so instead of counting it."""
    alone = dataclasses.replace(
        profile, prompts=1, rope_prompts=1, float32_lane=Lane(prompts=1, steps=2)
    )
    row = preservation.run(alone, tmp_path / "run", knobs=["padded_batch"])["rows"][0]

    assert (row["verdict"], row["runs"]) == ("not applied", 0)
    assert "asked for mask='padding'; the stack did mask='library'" in row["sentence"]


def test_a_declared_precision_does_not_excuse_another_function(profile: Profile) -> None:
    """An option that declares float32 and scales attention as well is not taken at its word."""

    @knob(kind="runtime", label="liar", precision="float32")
    def liar(backend: Backend) -> Iterator[Backend]:
        """Compute in float32, with attention scaled by three."""
        loaded = models.cast(backend.loaded, "float32")
        for layer in loaded.model.model.layers:
            layer.self_attn.scaling *= 3
        yield dataclasses.replace(backend, loaded=loaded)

    try:
        rows = preservation.run(profile, knobs=["liar", "float32"])["rows"]
    finally:
        del KNOBS["liar"]

    assert [(row["declared"], row["verdict"]) for row in rows] == [
        (False, "undetermined"),
        (True, "preserving"),
    ]


def test_options_of_one_name_are_refused(profile: Profile) -> None:
    """The same option twice is refused before anything runs, since its runs would mix."""
    with pytest.raises(KnobError, match="'eager_attention' and 'eager_attention' are both"):
        preservation.run(profile, knobs=["eager_attention", "eager_attention"])


def test_the_dtype_that_weights_were_loaded_in_belongs_to_a_unit(
    profile: Profile, tmp_path: Path
) -> None:
    """A float32 lane cast from bfloat16 weights is not reused for one cast from float16."""
    preservation.run(profile, tmp_path / "run", knobs=FEW[:1])
    other = dataclasses.replace(profile, dtype="bfloat16")
    mixed = preservation.run(other, tmp_path / "run", knobs=FEW[:1])

    assert mixed["lanes"] == preservation.run(other, knobs=FEW[:1])["lanes"]


def test_an_edited_knob_of_the_user_runs_again(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Editing the module of a user's own knob makes its units run again."""
    monkeypatch.syspath_prepend(tmp_path)
    source = (
        "from labkit.knobs import knob\n\n"
        "@knob(kind='runtime', label='mine')\n"
        "def mine(backend):\n"
        "    layers = backend.model.model.layers\n"
        "    before = layers[0].self_attn.scaling\n"
        "    layers[0].self_attn.scaling = before * FACTOR\n"
        "    yield backend\n"
        "    layers[0].self_attn.scaling = before\n"
    )
    verdicts = []
    for factor in ("1", "3"):
        (tmp_path / "own_knob.py").write_text(source.replace("FACTOR", factor))
        sys.modules.pop("own_knob", None)
        KNOBS.pop("mine", None)
        importlib.invalidate_caches()
        linecache.clearcache()
        section = preservation.run(profile, tmp_path / "run", knobs=["own_knob:mine"])
        verdicts.append(section["rows"][0]["verdict"])
    del KNOBS["mine"]

    assert verdicts == ["preserving", "different artefact"]


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
