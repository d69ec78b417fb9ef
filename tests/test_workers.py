"""Several processes measure one run: the same numbers, one journal, and refusals by name."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
import torch

from labkit.backends import Backend
from labkit.errors import RunError
from labkit.experiments import preservation
from labkit.experiments._workers import sharing_cores
from labkit.knobs import knob
from labkit.profiles import Lane, Profile, load_profile

FEW = ["chunked_prefill:chunk=7", "quantised_weights:bits=8", "window:size=8", "static_cache"]
TWO_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """Return a profile of the smallest size, on a tiny model on disk."""
    return dataclasses.replace(
        load_profile("quick"),
        model=str(tiny.save(tmp_path / "model")),
        prompts=2,
        prompt_tokens=40,
        steps=3,
        rope_prompts=2,
        float32_lane=Lane(prompts=2, steps=2),
    )


@knob(kind="runtime", label="killed")
def killed(backend: Backend) -> Iterator[Backend]:
    """Kill the worker that applies it, as a system does that runs out of memory."""
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    yield backend


def _without_times(section: dict) -> dict:
    runs = [{k: v for k, v in run.items() if k != "elapsed_s"} for run in section["runs"]]
    return {k: v for k, v in section.items() if k != "elapsed_s"} | {"runs": runs}


@TWO_CORES
@pytest.mark.slow
def test_two_workers_measure_what_one_does(profile: Profile, tmp_path: Path) -> None:
    """Sections agree to the last digit, and each finds what the other measured in the journal."""
    alone = preservation.run(profile, tmp_path / "alone", knobs=FEW)
    both = preservation.run(profile, tmp_path / "both", knobs=FEW, jobs=2)
    lines = (tmp_path / "both" / "journal.jsonl").read_bytes()
    again = preservation.run(profile, tmp_path / "both", knobs=FEW)

    assert _without_times(both) == _without_times(alone)
    assert _without_times(again) == _without_times(alone)
    assert (tmp_path / "both" / "journal.jsonl").read_bytes() == lines


@TWO_CORES
@pytest.mark.slow
def test_a_killed_worker_is_named(profile: Profile, tmp_path: Path) -> None:
    """A worker that dies ends the run with what to do, not with a hang."""
    with pytest.raises(RunError, match=r"one of jobs=2 was killed, for want of memory perhaps\."):
        preservation.run(profile, tmp_path / "run", knobs=["test_workers:killed"], jobs=2)


@pytest.mark.parametrize(
    ("jobs", "device", "says"),
    [
        (0, "cpu", "jobs must be between 1 and the number of cores, .*; got jobs=0"),
        (10_000, "cpu", "got jobs=10000"),
        pytest.param(2, "cuda", "device must be cpu; got device='cuda', jobs=2", marks=TWO_CORES),
    ],
)
def test_jobs_that_cannot_be_are_refused(jobs: int, device: str, says: str) -> None:
    """Neither no job, nor more than cores, nor several on one accelerator."""
    with pytest.raises(RunError, match=says), sharing_cores(jobs, device=device):
        pass


def test_threads_are_given_back() -> None:
    """After a run the process has its threads again, whatever happened in it."""
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), sharing_cores(1, device="cpu"):
        torch.set_num_threads(before + 1)
        raise ZeroDivisionError

    assert torch.get_num_threads() == before
