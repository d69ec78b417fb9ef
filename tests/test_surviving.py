"""Runs that are killed, starved of disk or doubled: at real passes, in processes of their own."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import resource
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny

from labkit import journal
from labkit.errors import RunError
from labkit.experiments import _arrays, preservation
from labkit.profiles import Lane, Profile, load_profile
from labkit.results import read_results

FEW = ["chunked_prefill:chunk=7", "quantised_weights:bits=8"]
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["labkit.experiments.preservation"])
PATIENCE_S = 120


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """Return a profile of the smallest size, on a tiny model on disk."""
    return dataclasses.replace(
        load_profile("quick"),
        model=str(tiny.save(tmp_path_factory.mktemp("tiny"))),
        prompts=2,
        prompt_tokens=40,
        steps=3,
        rope_prompts=2,
        float32_lane=Lane(prompts=2, steps=2),
    )


@pytest.fixture(scope="module")
def undisturbed(profile: Profile) -> dict:
    """Return the section of a run that nothing happens to."""
    return _without_times(preservation.run(profile, knobs=FEW))


def _without_times(section: dict) -> dict:
    runs = [{k: v for k, v in run.items() if k != "elapsed_s"} for run in section["runs"]]
    return {k: v for k, v in section.items() if k != "elapsed_s"} | {"runs": runs}


# ---- what happens to a run, in its own process -------------------------------------------


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_at(passes: int) -> Callable[[int, int, str], None]:
    return lambda done, total, unit: _die() if done == passes else None


def _die_in_a_line(profile: Profile, folder: Path) -> None:
    """Die with half a line of the journal on disk."""
    whole, lines = journal._write_all, iter(range(100))

    def half(handle: int, content: bytes) -> None:
        if next(lines) < 5:
            return whole(handle, content)
        os.write(handle, content[: len(content) // 2])
        return _die()

    journal._write_all = half
    preservation.run(profile, folder, knobs=FEW)


def _die_in_an_array(profile: Profile, folder: Path) -> None:
    """Die with half of a reference's logits on disk."""
    whole = _arrays.Rows.write

    def write(self: _arrays.Rows, step: int, logits: object) -> None:
        whole(self, step, logits)
        if "reference" in self._path.name and step == 1:
            self._array.flush()
            _die()

    _arrays.Rows.write = write
    preservation.run(profile, folder, knobs=FEW)


def _die_in_the_results(profile: Profile, folder: Path) -> None:
    """Die when the new results are written and not yet in their place."""
    whole = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if Path(target).name == "results.json":
            stored = json.loads(self.read_text())
            if stored["preservation"] is not None:
                _die()
        return whole(self, target)

    Path.replace = replace
    preservation.run(profile, folder, knobs=FEW)


def _die_after_4(profile: Profile, folder: Path) -> None:
    """Die between two baselines and their references."""
    preservation.run(profile, folder, knobs=FEW, progress=_die_at(4))


def _die_after_7(profile: Profile, folder: Path) -> None:
    """Die between two options."""
    preservation.run(profile, folder, knobs=FEW, progress=_die_at(7))


def _starve(profile: Profile, folder: Path) -> None:
    """Run with a disk on which no file can pass 6,000 bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, resource.RLIM_INFINITY))
    try:
        preservation.run(profile, folder, knobs=FEW)
    except RunError as error:
        (folder / "said").write_text(str(error))


def _hold(profile: Profile, folder: Path) -> None:
    """Take hold of a folder, say so, and never let go."""

    def wait(done: int, total: int, unit: str) -> None:
        (folder / "held").touch()
        signal.pause()

    preservation.run(profile, folder, knobs=FEW, progress=wait)


def _in_a_child(target: Callable[..., None], *arguments: object) -> int | None:
    child = CHILDREN.Process(target=target, args=arguments)
    child.start()
    child.join(PATIENCE_S)
    return child.exitcode


# ---- what is left ------------------------------------------------------------------------


def _units(folder: Path) -> Counter[str]:
    lines = (folder / "journal.jsonl").read_bytes().splitlines()
    return Counter(json.loads(line)["unit"] for line in lines if line.endswith(b"}"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "death",
    [_die_after_4, _die_after_7, _die_in_a_line, _die_in_an_array, _die_in_the_results],
    ids=lambda death: death.__name__.strip("_"),
)
def test_a_killed_run_goes_on_where_it_stood(
    profile: Profile, undisturbed: dict, tmp_path: Path, death: Callable[..., None]
) -> None:
    """Killed at any moment, the same command ends as if nothing had been, and repeats no option."""
    run = tmp_path / "run"

    assert _in_a_child(death, profile, run) == -signal.SIGKILL
    assert read_results(run)["run"]["status"] == "started"
    before = _units(run)
    again = preservation.run(profile, run, knobs=FEW)

    assert _without_times(again) == undisturbed
    twice = {unit for unit, times in _units(run).items() if times > 1}
    assert not twice, f"{twice} ran again, of {sorted(before)}"
    assert read_results(run)["run"]["status"] == "finished"


@pytest.mark.slow
def test_a_full_disk_is_named_and_the_run_goes_on_when_there_is_room(
    profile: Profile, undisturbed: dict, tmp_path: Path
) -> None:
    """The refusal names the file and what to do; with room again, the run ends as it should."""
    run = tmp_path / "run"

    assert _in_a_child(_starve, profile, run) == 0
    said = (run / "said").read_text()
    assert said.startswith("The disk must have room for the file; got path=")
    assert "call the same command again" in said
    assert _without_times(preservation.run(profile, run, knobs=FEW)) == undisturbed


@pytest.mark.slow
def test_a_second_process_on_a_folder_is_refused(profile: Profile, tmp_path: Path) -> None:
    """While one process writes a folder, another is refused with the first one's number."""
    run = tmp_path / "run"
    child = CHILDREN.Process(target=_hold, args=(profile, run))
    child.start()
    try:
        while not (run / "held").exists() and child.is_alive():
            child.join(0.2)
        with pytest.raises(RunError, match=rf"held by pid={child.pid}\. Wait for it to end"):
            preservation.run(profile, run, knobs=FEW)
    finally:
        child.kill()
        child.join()
