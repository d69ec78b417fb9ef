"""Paired comparison: pairing, the four cells, their intervals, and the three contracts."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_outputs import made
from scipy.stats import binomtest, bootstrap
from support import read_cases

from labkit.errors import OutputsError
from labkit.outputs import OUTPUTS_NAME, Output, OutputSet, read_outputs, write_outputs
from labkit.paired import (
    CONTRACTS,
    Interval,
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
from labkit.paired.intervals import hull, score_difference_interval, share_interval
from labkit.record import (
    end_record,
    fields_of_layers,
    observe,
    seal_record,
    start_record,
)
from labkit.scoring import EXTRACTORS

SOURCE = read_cases("source_transitions.json")
LAST = EXTRACTORS["last_number"]
_CELLS = st.tuples(*[st.integers(0, 200)] * 4).filter(any)


def outputs(items: Sequence[Output], name: str = "a.jsonl") -> OutputSet:
    """Make a set of outputs."""
    return OutputSet(name=name, items=tuple(items), sha256="", path=Path(name))


def answers(texts: str, **fields: Any) -> list[Output]:
    """Make one output a letter: its text is 5, which is right, for `r`, else 6."""
    return [
        made(id=str(n), cluster=str(n % 8), text="5" if letter == "r" else "6", **fields)
        for n, letter in enumerate(texts)
    ]


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


def test_no_pairs_are_refused() -> None:
    """A comparison of nothing is none."""
    with pytest.raises(OutputsError) as refused:
        measure_impact([], LAST)

    assert str(refused.value) == "a paired comparison needs at least one pair; got none."


# ---- contracts ----------------------------------------------------------------------------


def judged(name: str, before: list[Output], after: list[Output], **limits: Any) -> tuple[str, str]:
    """Return a contract's answer and sentence."""
    verdict = CONTRACTS[name](outputs(before), outputs(after), LAST, Limits(**limits))
    return verdict.answer, verdict.sentence


def test_bitwise_demands_every_token() -> None:
    """Identical tokens hold, one other token does not, and texts alone leave it open."""
    same = answers("rr", token_ids=(1, 2, 3, 4))
    other = [same[0], made(id="1", cluster="1", text="5", token_ids=(1, 2, 3, 5))]
    texts = answers("rr")

    assert judged("bitwise", same, same) == (
        "holds",
        "All 2 outputs have identical token ids.",
    )
    assert judged("bitwise", same, other) == (
        "does not hold",
        "1 of 2 outputs differ by their token ids; first '1'.",
    )
    assert judged("bitwise", texts, texts)[0] == "undetermined"


def test_task_holds_within_limits_that_the_data_can_show() -> None:
    """A thousand items with one lost and one gained are within two points."""
    before, after = answers("r" * 999 + "w"), answers("w" + "r" * 999)

    answer, sentence = judged("task", before, after)

    assert answer == "holds"
    assert sentence == (
        "1 of 1000 items lost and 1 gained: net +0.00 points, interval -0.64 to +0.64, "
        "within the limits."
    )


def test_task_is_undetermined_where_too_few_items_rule_a_loss_out() -> None:
    """Ten items without a change do not show that a loss of two points is excluded."""
    answer, sentence = judged("task", answers("r" * 10), answers("r" * 10))

    assert answer == "undetermined"
    assert sentence.endswith("a loss of more than 2 points is not ruled out.")


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        pytest.param({"max_lost": 2}, "3 items lost, more than the 2 allowed", id="lost"),
        pytest.param(
            {"max_different": 0.1}, "0.30 % differ, more than the 0.1 % allowed", id="different"
        ),
    ],
)
def test_task_does_not_hold_past_a_declared_limit(limits: dict[str, Any], fault: str) -> None:
    """A count past its limit breaks the contract, however small the net change."""
    answer, sentence = judged("task", answers("r" * 1000), answers("www" + "r" * 997), **limits)

    assert (answer, fault in sentence) == ("does not hold", True)


def test_task_does_not_hold_after_a_clear_loss() -> None:
    """Half of the items lost exceed two points at every end of the interval."""
    answer, sentence = judged("task", answers("r" * 100), answers("rw" * 50))

    assert answer == "does not hold"
    assert sentence.endswith("the loss exceeds 2 points.")


@pytest.mark.parametrize(
    ("after", "answer"),
    [
        pytest.param("r" * 800, "holds", id="equal"),
        pytest.param("w" * 800, "does not hold", id="all lost"),
        pytest.param("rrrrrrrw" * 100, "undetermined", id="one slice of eight lost"),
    ],
)
def test_statistical_compares_aggregates(after: str, answer: str) -> None:
    """The scores must agree within the margin as far as slices drawn anew can tell."""
    assert judged("statistical", answers("r" * 800), answers(after))[0] == answer


def test_statistical_needs_slices() -> None:
    """Fewer than five slices give no interval, and so no answer."""
    few = answers("rrrr")
    verdict = CONTRACTS["statistical"](outputs(few), outputs(few), LAST, Limits())

    assert verdict.answer == "undetermined"
    assert verdict.not_evaluated[:2] == (
        "repeats: one run a side; the interval is over slices",
        "no interval: fewer than 5 slices on a side",
    )


@pytest.mark.parametrize("letter", ["r", "w"])
def test_statistical_is_undetermined_on_a_handful_that_never_varies(letter: str) -> None:
    """Five items a side that are all right, or all wrong, do not make a point of the interval."""
    few = answers(5 * letter)
    verdict = CONTRACTS["statistical"](outputs(few), outputs(few), LAST, Limits())

    assert verdict.answer == "undetermined"
    assert verdict.sentence == (
        "The scores differ by +0.00 points; interval -43.45 to +43.45, margin 2."
    )
    assert verdict.not_evaluated[1:3] == (
        "dependence within slices: all 5 of the reference side have one score",
        "dependence within slices: all 5 of the changed side have one score",
    )


def test_statistical_says_how_many_items_are_shared() -> None:
    """Other items of the same slices may be compared, and the verdict counts them."""
    before, after = answers("r" * 800), answers("r" * 1000)[200:]
    verdict = CONTRACTS["statistical"](outputs(before), outputs(after), LAST, Limits())

    assert verdict.answer == "holds"
    assert "items: 600 of 1000 shared" in verdict.not_evaluated


def test_statistical_refuses_one_id_for_two_questions() -> None:
    """An item of both sets that is asked otherwise in the second belongs to another study."""
    before, after = answers("r" * 8), answers("r" * 9, prompt="other")

    with pytest.raises(OutputsError) as refused:
        CONTRACTS["statistical"](outputs(before), outputs(after), LAST, Limits())

    assert str(refused.value) == (
        "Paired items must have one prompt; got 8 items with another in the second file: '0', "
        "'1', '2' and 5 more. These are outputs for other questions."
    )


def test_bitwise_compares_each_pair_by_what_it_kept() -> None:
    """One pair without token ids hides no other pair whose token ids differ."""
    before = [made(id="a", text="5"), made(id="b", text="5", token_ids=(1, 2, 3, 4))]
    after = [made(id="a", text="5"), made(id="b", text="5", token_ids=(1, 2, 3, 9))]
    verdict = CONTRACTS["bitwise"](outputs(before), outputs(after), LAST, Limits())

    assert (verdict.answer, verdict.sentence) == (
        "does not hold",
        "1 of 2 outputs differ by their token ids or text; first 'b'.",
    )
    assert verdict.not_evaluated[0] == "token ids: 1 of 2 pairs have only text on a side"


def test_task_takes_the_hull_of_its_two_intervals() -> None:
    """Where clusters reach higher and counts reach lower, the sentence shows both ends."""
    first = Interval(low=-5.0, high=1.0, method="a")
    second = Interval(low=-3.0, high=2.0, method="b")

    assert hull(first, None) is first
    assert hull(first, second) == Interval(low=-5.0, high=2.0, method="hull of: a; b")


@pytest.mark.parametrize(
    ("stored", "error"),
    [
        pytest.param(
            {"max_loss": 2},
            "limits are max_lost, max_net_loss, max_different, margin; got 'max_loss'.",
            id="unknown",
        ),
        pytest.param(
            {"max_lost": 2.5},
            "max_lost must be a whole number of at least 0; got max_lost=2.5.",
            id="half an item",
        ),
        pytest.param(
            {"margin": float("nan")},
            "margin must be a number from 0 to 100; got margin=nan.",
            id="nan",
        ),
        pytest.param(
            {"max_different": 100.5},
            "max_different must be a number from 0 to 100; got max_different=100.5.",
            id="more than all",
        ),
        pytest.param(
            {"max_net_loss": True},
            "max_net_loss must be a number from 0 to 100; got max_net_loss=True.",
            id="true",
        ),
        pytest.param(
            {"max_net_loss": None},
            "max_net_loss must be a number from 0 to 100; got max_net_loss=None.",
            id="null",
        ),
    ],
)
def test_limits_that_make_no_sense_are_refused(stored: dict[str, Any], error: str) -> None:
    """A limit that is unknown, negative, no number or NaN would let everything pass."""
    with pytest.raises(OutputsError) as refused:
        Limits.from_json(stored)

    assert str(refused.value) == error


# ---- records ------------------------------------------------------------------------------


def recorded(folder: Path, items: Sequence[Output], **observed: Any) -> OutputSet:
    """Write outputs with a record beside them, of every field that an identity needs."""
    write_outputs(folder / OUTPUTS_NAME, items)
    start_record(folder, command="outputs", profile={"name": "made"})
    needed = {
        name: {} if "object" in info.holds else "known"
        for name, info in fields_of_layers().items()
        if info.effect == "artefact"
    }
    observe(folder, observed={**needed, **{f"execution.{k}": v for k, v in observed.items()}})
    seal_record(folder, end_record(folder), files=[folder / OUTPUTS_NAME])
    return read_outputs(folder)


@pytest.mark.parametrize(
    ("observed", "answer", "outcome"),
    [
        pytest.param({}, "holds", "same artefact", id="the same"),
        pytest.param({"attention": "eager"}, "holds", "same artefact", id="arithmetic"),
        pytest.param({"window": "64"}, "undetermined", "another artefact", id="another"),
    ],
)
def test_bitwise_asks_the_records_for_the_artefact(
    observed: dict[str, Any], answer: str, outcome: str, tmp_path: Path
) -> None:
    """Equal tokens of another artefact are no proof of a replay; the arithmetic may differ."""
    items = answers("rr", token_ids=(1, 2, 3, 4))
    before = recorded(tmp_path / "a", items, attention="sdpa")
    after = recorded(tmp_path / "b", items, **{"attention": "sdpa", **observed})

    verdict = CONTRACTS["bitwise"](before, after, LAST, Limits())

    assert (verdict.answer, verdict.numbers["records"]) == (answer, outcome)
    assert verdict.not_evaluated == ()


def test_outputs_without_a_record_are_said_to_be_so(tmp_path: Path) -> None:
    """A contract on outputs alone names the artefact among what it did not look at."""
    before = recorded(tmp_path / "a", answers("rr"))
    after = outputs(answers("rr"), name=str(tmp_path / "b.jsonl"))

    for contract in CONTRACTS.values():
        verdict = contract(before, after, LAST, Limits())

        assert verdict.not_evaluated[-1] == (
            f"artefact and execution: no record.json beside {after.name}"
        )


def test_outputs_of_another_artefact_are_refused(tmp_path: Path) -> None:
    """A record that is of other bytes than the file beside it speaks for another run."""
    before = recorded(tmp_path, answers("rr"))
    write_outputs(tmp_path / OUTPUTS_NAME, answers("rw"))
    after = read_outputs(tmp_path)

    with pytest.raises(OutputsError) as refused:
        CONTRACTS["task"](after, after, LAST, Limits())

    assert str(refused.value) == (
        f"A record must be of the outputs beside it; got {tmp_path / 'record.json'} with "
        f"sha256={before.sha256} for outputs.jsonl, whose sha256 is {after.sha256}. "
        "These are outputs of another artefact, or were changed since."
    )
