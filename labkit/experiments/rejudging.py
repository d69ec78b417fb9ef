"""Verdicts anew from what a run stored, without running anything.

The journal holds each step's distance of every option and of the baseline. A verdict is a
function of these, so a changed rule can be read off old runs, and a third party can check one.
"""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Any

import numpy as np

from labkit.errors import ResultsError
from labkit.experiments._rows import lane_rows, option_row, summarise
from labkit.experiments.preservation import SECTION
from labkit.files import shown
from labkit.harness import Baseline, Lane, Run, Trace
from labkit.journal import Journal
from labkit.knobs import Option, parse_option
from labkit.results import read_results

NO_LOGITS = np.empty((0, 0), dtype=np.float32)


def rejudge(folder: str | Path) -> dict[str, Any]:
    """Return a stored run's preservation section with its verdicts made anew.

    A row that did not run, or that declares its own precision, is not a matter of distances and
    stands as it was stored.

    Raises:
        ResultsError: If the section or its journal is missing, or the journal lacks what a row
            was made of; then nothing is decided.
    """
    path = Path(folder)
    section = read_results(path / "results.json").get(SECTION)
    if section is None:
        raise ResultsError(f"{shown(path)} must hold a preservation section; it has none.")
    stored = _Stored(path / "journal.jsonl")
    rows, lanes = [], []
    for row in section["rows"]:
        option = parse_option(row["option"])
        if row["runs"] == 0 or option.knob.precision is not None:
            rows.append(row)
            lanes += [lane for lane in section["lanes"] if lane["knob"] == row["knob"]]
            continue
        prompts = {run["prompt"] for run in section["runs"] if run["knob"] == row["knob"]}
        found = [stored.lane(option, p, prompts) for p in _precisions(section, row["knob"])]
        lanes += _checked(lane_rows(option, found), section["lanes"])
        rows.append(option_row(option, found, declared=None, refused=None))
    return {
        **section,
        "rows": rows,
        "lanes": lanes,
        "summary": summarise(rows, section["baseline"]["margins"]),
        "journal_problems": stored.problems,
    }


def _precisions(section: dict[str, Any], knob: str) -> list[str]:
    return [lane["precision"] for lane in section["lanes"] if lane["knob"] == knob]


def _checked(again: list[dict[str, Any]], stored: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lanes, whose distances no rule can change: others are another run's."""
    for lane in again:
        if lane not in stored:
            raise ResultsError(
                f"the journal must be the one that results.json was made of; its distances of "
                f"{lane['knob']} in {lane['precision']} are others. Run the same command again."
            )
    return again


class _Stored:
    """A journal's latest value of each unit, as baselines and lanes."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ResultsError(
                f"verdicts are made anew from the journal; {shown(path)} is not there. Run the "
                "experiment again with the same folder."
            )
        journal = Journal(path)
        self.problems = journal.problems
        self._path = path
        self._values = journal.latest()

    def lane(self, option: Option, precision: str, prompts: Set[str]) -> Lane:
        """Return one option at one precision, on the prompts of its row.

        Raises:
            ResultsError: If a unit of it is missing.
        """
        head = f"{precision}/{option.slug}/"
        units = [value for unit, value in self._values.items() if unit.startswith(head)]
        every = [Run.from_json(run) for value in units for run in value.get("runs", [])]
        runs = [run for run in every if run.prompt in prompts]
        if not runs:
            self._refuse(f"{precision}/{option.slug}")
        baselines = {run.prompt: self._baseline(precision, run.prompt) for run in runs}
        return Lane(
            precision=precision, runs={run.prompt: run for run in runs}, baselines=baselines
        )

    def _baseline(self, precision: str, prompt: str) -> Baseline:
        trace = self._value(f"{precision}/baseline/{prompt}")
        reference = self._value(f"{precision}/reference/{prompt}")
        return Baseline(
            prompt=prompt,
            ids=(),
            trace=Trace(tokens=tuple(trace["tokens"]), margins=tuple(trace["margins"])),
            logits=NO_LOGITS,
            reference=NO_LOGITS,
            error_rms=np.asarray(reference["error_rms"], dtype=np.float64),
            error_max=np.asarray(reference["error_max"], dtype=np.float64),
        )

    def _value(self, unit: str) -> dict[str, Any]:
        if unit not in self._values:
            self._refuse(unit)
        value: dict[str, Any] = self._values[unit]
        return value

    def _refuse(self, unit: str) -> None:
        raise ResultsError(
            f"a verdict needs every unit its row was made of; {shown(self._path)} lacks {unit}. "
            "Run the same command again: it measures what is missing, and only that."
        )
