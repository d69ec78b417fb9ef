"""The verdict benchmark: enough cases, criteria that do what they say, a file that holds."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import verdicts
from verdict_bench import criteria, defects  # noqa: F401  # registers its cases
from verdict_bench.cases import CASES, CHANGE, DEFECT, PRESERVE
from verdict_bench.readings import judge_remainder, judge_staying
from verdict_bench.running import PRECISIONS, run_subject
from verdict_bench.subjects import SUBJECTS
from verdict_bench.table import counts_of

from labkit.harness import Baseline, Lane, Run, Trace
from labkit.harness.verdict import EQUAL_PARTS, growth, judge

STORED = Path(verdicts.ROOT) / "data" / "verdicts" / "verdicts.json"
STEPS = 3


def test_every_subject_has_enough_cases_of_each_truth() -> None:
    """At least 12 options preserve, 12 change and 15 defects are planted, on each architecture."""
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    for subject in SUBJECTS:
        fitting = [case for case in CASES if case.fits(subject.traits)]
        counts = Counter(case.truth_on(subject.traits) for case in fitting)

        assert counts[PRESERVE] >= 12, subject.name
        assert counts[CHANGE] >= 12, subject.name
        assert counts[DEFECT] >= 15, subject.name


# ---- criteria ----------------------------------------------------------------------------


def _baseline(rows: np.ndarray, *, error: float = 1.0) -> Baseline:
    tokens = tuple(int(t) for t in rows.argmax(axis=1))
    return Baseline(
        prompt="p",
        ids=(1,),
        trace=Trace(tokens=tokens, margins=(1.0,) * len(rows)),
        logits=rows,
        reference=rows,
        error_rms=np.full(len(rows), error),
        error_max=np.full(len(rows), error),
    )


def _run(picks: tuple[int, ...], *, distance: float = 1.0, at: int | None = None) -> Run:
    return Run(
        prompt="p",
        picks=picks,
        distance=(distance,) * len(picks),
        kl=(0.0005,) * len(picks),
        logit_change=0.1,
        first_divergence=at,
    )


def test_logprobs_close_reads_only_the_first_difference() -> None:
    """A flip to a candidate passes, whatever comes after; one to a stranger does not."""
    rows = np.tile(np.arange(10.0), (STEPS, 1)).astype(np.float32)
    base = _baseline(rows)
    near = rows.copy()
    near[1, 8] = 20.0
    near[2] = rows[2, ::-1]
    far = rows.copy()
    far[1, 0] = 20.0
    seen = [
        criteria.look(_run((9, pick, 9), at=1), base, list(one), precision="float32")
        for one, pick in ((near, 8), (far, 0))
    ]

    assert [one.in_top for one in seen] == [True, False]


def test_allclose_passes_where_four_rows_of_five_are_close() -> None:
    """The tests it is taken from ask for 80 % of the rows, at their tolerances by precision."""
    rows = np.ones((5, 10), dtype=np.float32)
    base, off = _baseline(rows), rows.copy()
    off[0] += 0.02
    run = _run((0,) * 5)
    by_precision = {
        name: criteria.look(run, base, list(off), precision=name).rows_close
        for name in criteria.TOLERANCES
    }

    assert by_precision == {"float32": 0.8, "float16": 0.8, "bfloat16": 1.0}
    assert criteria.allclose([run], [criteria.Seen(rows_close=0.8, in_top=True)])
    assert not criteria.allclose([run], [criteria.Seen(rows_close=0.6, in_top=True)])


def test_mean_kl_and_equal_tokens_read_the_runs() -> None:
    """One is the mean over all steps against its cut, the other asks for no difference at all."""
    same, flipped = _run((0, 0)), _run((0, 1), at=1)

    assert criteria.mean_kl([same], []) and criteria.mean_kl([flipped], [])
    assert criteria.equal_tokens([same], [])
    assert not criteria.equal_tokens([same, flipped], [])


# ---- the candidate rules -----------------------------------------------------------------


def _lane(precision: str, *, distance: float, error: float) -> Lane:
    base = _baseline(np.eye(STEPS, dtype=np.float32), error=error)
    return Lane(
        precision=precision,
        runs={name: _run((0, 1, 2), distance=distance) for name in "pq"},
        baselines=dict.fromkeys("pq", base),
    )


@pytest.mark.parametrize(
    ("coarse", "fine", "verdict"),
    [
        pytest.param(1.0, 1.0, "preserving", id="shrinks-with-the-arithmetic"),
        pytest.param(1.0, 1.3, "preserving", id="less-stays-than-shrinks"),
        pytest.param(1.0, 0.99 * EQUAL_PARTS, "preserving", id="almost-equal-parts"),
        pytest.param(1.0, 2.5, "different artefact", id="more-stays-than-shrinks"),
        pytest.param(3.0, 3.0, "preserving", id="coarse-arithmetic-that-shrinks"),
        pytest.param(0.5, 1.0, "preserving", id="more-exact-than-the-baseline"),
        pytest.param(18.0, 4e4, "different artefact", id="eight-bit-weights"),
    ],
)
def test_growth_compares_what_stays_with_what_shrinks(
    coarse: float, fine: float, verdict: str
) -> None:
    """The ratio in the fine lane is read against the one that the coarse lane foretells."""
    lanes = [
        _lane("float16", distance=coarse * 1e-3, error=1e-3),
        _lane("float32", distance=fine * 1e-7, error=1e-7),
    ]

    assert judge(lanes).verdict == verdict


def test_growth_without_a_yardstick_decides_nothing() -> None:
    """Where a distance is exactly zero there is no growth."""
    lanes = [_lane("float16", distance=0.0, error=1e-3), _lane("float32", distance=1, error=1)]

    assert growth(*lanes) is None
    assert judge(lanes).verdict == "undetermined"


def test_a_remainder_is_read_in_roundings_of_the_finest_lane() -> None:
    """What float64 leaves of an option is arithmetic below one rounding, and a change above."""
    fine = _lane("float32", distance=1.0, error=1e-7)

    assert judge_remainder(fine, dict.fromkeys("pq", (1e-12,) * STEPS)) == "preserving"
    assert judge_remainder(fine, dict.fromkeys("pq", (5e-7,) * STEPS)) == "different artefact"
    assert judge_remainder(fine, {"p": (5e-7,) * STEPS}) == "undetermined"
    assert judge_remainder(fine, {}) == "undetermined"


def test_without_a_remainder_the_growth_decides() -> None:
    """What cannot run in float64 is judged by two precisions."""
    coarse = _lane("float16", distance=1e-3, error=1e-3)
    fine = _lane("float32", distance=9e-7, error=1e-7)

    assert judge_staying(coarse, fine, {}) == "different artefact"
    assert judge_staying(coarse, fine, dict.fromkeys("pq", (1e-12,) * STEPS)) == "preserving"


# ---- the stored benchmark ----------------------------------------------------------------


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    """Return the committed benchmark."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def test_cases_that_leave_the_baseline_are_run_and_counted() -> None:
    """A change whose outputs part at once is measured at each precision, and so is a defect."""
    gpt2 = replace(SUBJECTS[0], steps=STEPS)
    wanted = ("window:size=8", "attention scale 1 % too large")
    cases = [case for case in CASES if case.name in wanted]
    records = run_subject(gpt2, cases)

    assert [sorted(record.at) for record in records] == [sorted(PRECISIONS)] * len(wanted)
    assert any(not run.identical for run in records[0].at["float16"].lane.runs.values())


@pytest.mark.parametrize("wrong", [["--subject", "no such model"], ["--jobs", "0"]])
def test_a_benchmark_of_nothing_is_refused(
    wrong: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt architecture, or no job, is refused by name, and the file is left alone."""
    file = tmp_path / "verdicts.json"
    with pytest.raises(SystemExit) as left:
        verdicts.main([*wrong, "--json", str(file)])

    assert left.value.code == 2
    assert wrong[1] in capsys.readouterr().err
    assert not file.exists()


def test_the_stored_counts_are_those_of_the_stored_rows(stored: dict[str, Any]) -> None:
    """No count in the file is typed: each follows from its rows, over all subjects."""
    assert stored["summary"]["criteria"] == counts_of(stored["rows"])
    assert stored["summary"]["subjects"] == [subject.name for subject in SUBJECTS]


def test_the_stored_rows_are_of_todays_cases(stored: dict[str, Any]) -> None:
    """Each case that fits a subject has a row at each precision, or a reason why not."""
    held = {(row["subject"], row["case"]) for row in stored["rows"]}
    held |= {(row["subject"], row["case"]) for row in stored["refused"]}
    expected = {(s.name, c.name) for s in SUBJECTS for c in CASES if c.fits(s.traits)}

    assert held == expected
