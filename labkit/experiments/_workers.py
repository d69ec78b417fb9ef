"""Options measured by several processes at once; only the one that started them writes.

Each worker loads the model and has its share of the cores. The number of threads is part of what
a unit depends on, so a run that goes on with another number of jobs measures its units again.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

import torch

from labkit.errors import RunError
from labkit.experiments._lanes import LaneRunner, Unit
from labkit.knobs import Option, parse_option

Kept = list[tuple[str, str, dict[str, Any]]]


@contextmanager
def sharing_cores(jobs: int, *, device: str) -> Iterator[None]:
    """Give this process, and so each worker, its share of the cores for a `with` block.

    Raises:
        RunError: If the shares would be empty, or the work is not the processor's.
    """
    cores = len(os.sched_getaffinity(0))
    if not 1 <= jobs <= cores:
        raise RunError(f"jobs must be between 1 and the number of cores, {cores}; got jobs={jobs}.")
    if jobs > 1 and device != "cpu":
        raise RunError(
            f"jobs share the cores of a processor, so device must be cpu; got device={device!r}, "
            f"jobs={jobs}. One job keeps another device busy."
        )
    before = torch.get_num_threads()
    if jobs > 1:
        torch.set_num_threads(max(1, min(before, cores // jobs)))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def measure_apart(runner: LaneRunner, options: Sequence[Option], *, jobs: int) -> None:
    """Measure what is missing of the options, an option a process at a time.

    Raises:
        RunError: If a worker is killed, for want of memory say.
    """
    waiting = [(option, units) for option in options if (units := runner.missing(option))]
    if not waiting:
        return
    pool = ProcessPoolExecutor(
        max_workers=min(jobs, len(waiting)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(runner, torch.get_num_threads()),
    )
    try:
        futures = [pool.submit(_measure, _importable(option), units) for option, units in waiting]
        for future in as_completed(futures):
            for unit, digest, value in future.result():
                runner.keep(unit, digest, value)
    except BrokenProcessPool as problem:
        raise RunError(
            f"each worker must live until its options are measured; one of jobs={jobs} was killed, "
            "for want of memory perhaps. What was measured is kept: call the same command again, "
            "with fewer jobs."
        ) from problem
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _importable(option: Option) -> str:
    return f"{option.knob.home.partition(':')[0]}:{option.spelled}"


_RUNNER: list[LaneRunner] = []  # a worker's own, for as long as it lives


def _begin(runner: LaneRunner, threads: int) -> None:
    torch.set_num_threads(threads)
    _RUNNER[:] = [runner]


def _measure(spelled: str, units: Sequence[Unit]) -> Kept:
    return list(_RUNNER[0].measured(parse_option(spelled), units))
