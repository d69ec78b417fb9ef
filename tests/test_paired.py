"""Paired comparison: pairing, the four cells and their intervals."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_outputs import made, outputs
from scipy.stats import binomtest, bootstrap
from support import read_cases

from labkit.cli import main
from labkit.errors import OutputsError
from labkit.paired import (
    Limits,
    Transitions,
    cells_from_scores,
    cluster_interval,
    count_transitions,
    exact_net_interval,
    gained_percent,
    mcnemar_p,
    measure_impact,
    pair_outputs,
)
from labkit.paired.intervals import score_difference_interval, share_interval
from labkit.scoring import EXTRACTORS, score

SOURCE = read_cases("source_transitions.json")
LAST = EXTRACTORS["last_number"]
_CELLS = st.tuples(*[st.integers(0, 200)] * 4).filter(any)


def cells_of(numbers: Sequence[int]) -> Transitions:
    """Make the four cells from four numbers."""
    names = ("right_right", "right_wrong", "wrong_right", "wrong_wrong")
    return Transitions(**dict(zip(names, numbers, strict=True)))


# ---- pairing ------------------------------------------------------------------------------


def test_items_are_paired_by_id() -> None:
    """The order of the second file does not matter."""
    items = [made(id="a", text="1"), made(id="b", text="2")]

    pairs = pair_outputs(outputs(items), outputs(items[::-1]))

    assert [(p.before.text, p.after.text) for p in pairs] == [("1", "1"), ("2", "2")]


@pytest.mark.parametrize("swapped", [False, True])
def test_an_item_without_its_pair_is_refused(swapped: bool) -> None:
    """Unpaired items are refused with their number, the file, and some of their names."""
    few = outputs([made(id="0")], "few.jsonl")
    many = outputs([made(id=str(n)) for n in range(6)], "many.jsonl")

    with pytest.raises(OutputsError) as refused:
        pair_outputs(*((many, few) if swapped else (few, many)))

    assert str(refused.value) == (
        "Paired outputs must answer the same items; got 5 only in many.jsonl: '1', '2', '3' and "
        "2 more. Run both on one set of items."
    )


@pytest.mark.parametrize("name", ["prompt", "reference", "cluster"])
def test_outputs_for_other_questions_are_refused(name: str) -> None:
    """One id with two prompts, references or clusters is not the same item."""
    with pytest.raises(OutputsError) as refused:
        pair_outputs(outputs([made(id="a")]), outputs([made(id="a", **{name: "other"})]))

    assert str(refused.value) == (
        f"Paired items must have one {name}; got 1 items with another in the second file: 'a'. "
        "These are outputs for other questions."
    )


# ---- cells --------------------------------------------------------------------------------


@settings(deadline=None)
@given(_CELLS)
def test_the_cells_are_counted(numbers: tuple[int, int, int, int]) -> None:
    """Pairs in any order are counted into their four cells."""
    kinds = [(True, True), (True, False), (False, True), (False, False)]
    pairs = [kind for kind, count in zip(kinds, numbers, strict=True) for _ in range(count)]
    random.Random(0).shuffle(pairs)

    assert count_transitions(pairs) == cells_of(numbers)


@pytest.mark.parametrize("case", [c for c in SOURCE if "net" in c], ids=lambda c: c["why"])
def test_the_source_derives_the_same_gains(case: dict[str, Any]) -> None:
    """Recovering the share gained from printed values reproduces the source's derivation."""
    found = gained_percent(lost_percent=case["lost"], net_points=case["net"])

    assert (found.percent, round(found.low, 6), round(found.high, 6)) == (
        case["gained"],
        case["low"],
        case["high"],
    )


@pytest.mark.parametrize("case", [c for c in SOURCE if "cells" in c], ids=lambda c: c["why"])
def test_the_cells_follow_from_printed_scores(case: dict[str, Any]) -> None:
    """Two printed accuracies and one count give all four cells."""
    found = cells_from_scores(
        items=case["items"],
        before_percent=case["before"],
        after_percent=case["after"],
        gained=case["gained_items"],
    )

    assert found == cells_of(case["cells"])


@settings(deadline=None)
@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(*[st.integers(0, n)] * 3)))
def test_cells_are_recovered_from_what_they_print(parts: tuple[int, int, int]) -> None:
    """Any table of up to some thousand items is recovered from its own rounded scores."""
    numbers = (*parts, 1)
    cells = cells_of(numbers)
    before = round(100 * (cells.right_right + cells.right_wrong) / cells.items, 4)
    after = round(100 * (cells.right_right + cells.wrong_right) / cells.items, 4)

    found = cells_from_scores(
        items=cells.items,
        before_percent=before,
        after_percent=after,
        gained=cells.wrong_right,
        decimals=4,
    )

    assert found == cells


@pytest.mark.parametrize(
    ("values", "error"),
    [
        pytest.param(
            {"items": 200, "before_percent": 50.3, "after_percent": 50.5, "gained": 3},
            "a printed accuracy must be one count of 200 items at 2 decimals; got 50.3 %, which "
            "fits 0 counts.",
            id="no count",
        ),
        pytest.param(
            {"items": 200, "before_percent": 50.0, "after_percent": 60.0, "gained": 3},
            "the four cells must not be negative; got (117, -17, 3, 97) from items=200, "
            "before=100, after=120, gained=3.",
            id="too few gained",
        ),
    ],
)
def test_printed_values_that_contradict_each_other_are_refused(
    values: dict[str, Any], error: str
) -> None:
    """What cannot have been printed from one table is refused with its numbers."""
    with pytest.raises(OutputsError) as refused:
        cells_from_scores(**values)

    assert str(refused.value) == error


# ---- intervals ----------------------------------------------------------------------------


def test_mcnemar_is_the_exact_binomial_test() -> None:
    """One lost and nine gained have probability 2 (1 + 10) / 2^10 under the null."""
    assert mcnemar_p(cells_of((50, 1, 9, 40))) == pytest.approx(22 / 1024)


def test_nothing_changed_is_not_tested() -> None:
    """Without a discordant pair there is no p-value, and no interval over clusters."""
    assert mcnemar_p(cells_of((50, 0, 0, 50))) is None
    assert cluster_interval([0] * 20, [str(n) for n in range(20)]) is None


@settings(deadline=None)
@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_exact_tests_are_the_librarys(counted: tuple[int, int]) -> None:
    """The p-value and the interval are those of scipy's binomial test, which loads slowly."""
    count, items = counted
    cells = Transitions(right_right=0, right_wrong=items - count, wrong_right=count, wrong_wrong=0)
    theirs = binomtest(count, items)
    ends = theirs.proportion_ci(0.95, method="exact")
    ours = share_interval(count, items)

    assert mcnemar_p(cells) == pytest.approx(theirs.pvalue)
    assert (ours.low, ours.high) == pytest.approx((100 * ends.low, 100 * ends.high), abs=1e-6)


def test_the_score_interval_is_newcombes() -> None:
    """The difference of 56 of 70 and 48 of 80 is that of Newcombe (1998), table II, method 10."""
    found = score_difference_interval((48, 80), (56, 70))

    assert (found.low, found.high) == (
        pytest.approx(5.24, abs=0.005),
        pytest.approx(33.39, abs=0.005),
    )


def test_impact_starts_without_the_slow_half_of_scipy() -> None:
    """Reading the paired room loads neither scipy.stats nor scipy.optimize."""
    code = "import sys, labkit.paired; print({'scipy.stats', 'scipy.optimize'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


def test_no_change_seen_leaves_a_change_possible() -> None:
    """With nothing changed in a hundred items the exact interval stays open on both sides."""
    interval = exact_net_interval(cells_of((50, 0, 0, 50)))

    assert interval.low == -interval.high
    assert 3.0 < interval.high < 5.0


@settings(deadline=None)
@given(_CELLS)
def test_the_exact_interval_holds_the_estimate(numbers: tuple[int, int, int, int]) -> None:
    """The net change lies inside its interval, which lies inside what is possible."""
    cells = cells_of(numbers)
    interval = exact_net_interval(cells)

    assert -100 <= interval.low <= cells.net_points <= interval.high <= 100


def test_the_exact_interval_covers_the_truth() -> None:
    """Of 300 simulated studies at least 95 in a hundred have the true change inside."""
    draw = np.random.default_rng(3)
    truth = [0.7, 0.08, 0.04, 0.18]
    inside = 0
    for numbers in draw.multinomial(120, truth, size=300):
        interval = exact_net_interval(cells_of([int(n) for n in numbers]))
        inside += interval.low <= -4.0 <= interval.high

    assert inside >= 285


def test_the_cluster_bootstrap_is_the_librarys() -> None:
    """Drawing counts of kinds gives the interval of scipy's bootstrap over whole clusters."""
    draw = np.random.default_rng(1)
    changes = draw.choice([-1, 0, 0, 0, 1], size=200)
    clusters = [str(n // 10) for n in range(200)]
    nets = changes.reshape(20, 10).sum(axis=1)

    ours = cluster_interval(changes.tolist(), clusters)
    theirs = bootstrap(
        (100 * nets / 10,), np.mean, n_resamples=9999, method="percentile", rng=2
    ).confidence_interval

    assert ours is not None
    assert ours.low == pytest.approx(theirs.low, abs=0.3)
    assert ours.high == pytest.approx(theirs.high, abs=0.3)


def test_items_that_move_together_widen_the_interval() -> None:
    """Twenty clusters that move as one are less certain than two hundred single items."""
    changes = [1 if n // 10 % 4 == 0 else 0 for n in range(200)]

    together = cluster_interval(changes, [str(n // 10) for n in range(200)])
    apart = cluster_interval(changes, [str(n) for n in range(200)])

    assert together is not None
    assert apart is not None
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_few_clusters_give_no_interval() -> None:
    """Four clusters hardly resample, and an interval from them would look certain."""
    assert cluster_interval([1, 0, 0, -1], list("abcd")) is None


# ---- impact -------------------------------------------------------------------------------


def test_text_and_task_are_kept_apart() -> None:
    """Outputs that differ and are right twice diverge without a change of the task."""
    before = [made(id="a", text="5"), made(id="b", text="6"), made(id="c", text="5")]
    after = [made(id="a", text="so 5"), made(id="b", text="7"), made(id="c", text="5")]

    found = measure_impact(pair_outputs(outputs(before), outputs(after)), LAST)

    assert (found.divergence.different, found.divergence.compared) == (2, "text")
    assert found.transitions == cells_of((2, 0, 0, 1))
    assert [item.same_output for item in found.items] == [False, False, True]


def test_what_was_not_evaluated_is_listed() -> None:
    """Missing answers, absent clusters and tests that cannot be made are never shown as clean."""
    before = [made(id="a", text="none"), made(id="b", text="5")]

    found = measure_impact(pair_outputs(outputs(before), outputs(before)), LAST)

    assert found.p_value is None
    assert found.not_evaluated == (
        "1 answers before are missing and count as not right",
        "1 answers after are missing and count as not right",
        "interval over clusters: no outcome changed",
        "McNemar's test: no outcome changed",
        "dependence between items: no clusters were given, each item is its own",
    )


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from(["5", "6", "none"])] * 2), min_size=1, max_size=20))
def test_an_output_that_did_not_change_is_read_once(texts: list[tuple[str, str]]) -> None:
    """Each side has the scores that it has alone, though what both wrote alike is read once."""
    before, after = (
        [made(id=str(n), text=pair[side]) for n, pair in enumerate(texts)] for side in (0, 1)
    )
    read: list[str] = []
    counting = dataclasses.replace(LAST, find=lambda text: read.append(text) or LAST.find(text))
    found = measure_impact(pair_outputs(outputs(before), outputs(after)), counting)

    assert tuple(item.before for item in found.items) == score(before, LAST).items
    assert tuple(item.after for item in found.items) == score(after, LAST).items
    assert len(read) == len(texts) + sum(a != b for a, b in texts)


def test_no_pairs_are_refused() -> None:
    """A comparison of nothing is none."""
    with pytest.raises(OutputsError) as refused:
        measure_impact([], LAST)

    assert str(refused.value) == "a paired comparison needs at least one pair; got none."


def test_the_help_names_the_limits_that_hold_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    """A limit that decides though nobody gave it stands in the help with its value."""
    with pytest.raises(SystemExit):
        main(["impact", "--help"])
    said = " ".join(capsys.readouterr().out.split())

    assert f"may reach (default: {Limits().max_net_loss:g})" in said
    assert f"--contract statistical (default: {Limits().margin:g})" in said
    assert said.count("(default: any)") == 2
