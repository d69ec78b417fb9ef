"""The three contracts: what each demands, what it leaves open, and what it asks the records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_outputs import answers, made, outputs

from labkit.errors import OutputsError
from labkit.outputs import OUTPUTS_NAME, Output, OutputSet, read_outputs, write_outputs
from labkit.paired import CONTRACTS, Interval, Limits, statistical
from labkit.paired.intervals import hull
from labkit.record import (
    end_record,
    fields_of_layers,
    observe,
    seal_record,
    start_record,
)
from labkit.scoring import EXTRACTORS

LAST = EXTRACTORS["last_number"]


def judged(name: str, before: list[Output], after: list[Output], **limits: Any) -> tuple[str, str]:
    """Return a contract's answer and sentence."""
    verdict = CONTRACTS[name](outputs(before), outputs(after), LAST, Limits(**limits))
    return verdict.answer, verdict.sentence


def test_bitwise_demands_every_token() -> None:
    """Identical tokens hold, one other token does not, and texts alone leave it open."""
    same = answers("rr", token_ids=(1, 2, 3, 4))
    other = [same[0], dataclasses.replace(same[1], token_ids=(1, 2, 3, 5))]
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


def renamed(items: Sequence[Output], prefix: str = "again ") -> list[Output]:
    """Return the same questions under other ids."""
    return [dataclasses.replace(item, id=f"{prefix}{item.id}") for item in items]


MANY = answers("r" * 1600)


@pytest.mark.parametrize(
    ("before", "after", "questions"),
    [
        pytest.param(
            MANY[:800], MANY[800:], "0 of 1600 questions stand in both sets", id="nothing shared"
        ),
        pytest.param(
            MANY[:800], MANY[200:1000], "600 of 1000 questions stand in both sets", id="a part"
        ),
        pytest.param(
            MANY[:800],
            [*MANY[:800], *renamed(MANY[:100])],
            "800 of 800 questions stand in both sets, in other shares",
            id="some asked twice",
        ),
    ],
)
def test_statistical_is_undetermined_between_other_questions(
    before: list[Output], after: list[Output], questions: str
) -> None:
    """Two aggregates of other questions are no estimate of one score, however near they are."""
    verdict = statistical(outputs(before), outputs(after), LAST, Limits())

    assert verdict.answer == "undetermined"
    assert verdict.sentence == f"The scores differ by +0.00 points; no interval: {questions}."
    assert verdict.numbers["interval"] is None
    assert verdict.not_evaluated[1] == (
        f"population: {questions}. Compare the same questions, or declare independent samples of "
        "one population that share none"
    )


def test_statistical_knows_questions_by_what_they_ask() -> None:
    """The same prompts and references under other names, as in a repeat, are the same questions."""
    verdict = statistical(outputs(MANY[:800]), outputs(renamed(MANY[:800])), LAST, Limits())

    assert verdict.answer == "holds"
    assert verdict.numbers["questions"] == {"either": 800, "both": 800, "same": True}


def test_statistical_compares_samples_that_are_declared() -> None:
    """Samples of one population that share no question get an interval, named as unpaired."""
    verdict = statistical(
        outputs(MANY[:800]), outputs(MANY[800:]), LAST, Limits(), independent_samples=True
    )

    assert verdict.answer == "holds"
    assert verdict.sentence == (
        "The scores differ by +0.00 points; unpaired interval between independent samples "
        "-0.48 to +0.48, margin 2."
    )
    assert "population: one for both samples, as declared" in verdict.not_evaluated


@pytest.mark.parametrize(
    ("after", "count"),
    [
        pytest.param(MANY[799:], "1 of 1600", id="one item"),
        pytest.param(renamed(MANY[:800]), "800 of 800", id="other names"),
    ],
)
def test_samples_that_share_a_question_are_not_independent(after: list[Output], count: str) -> None:
    """A declaration that the files contradict is refused with the number of shared questions."""
    with pytest.raises(OutputsError) as refused:
        statistical(outputs(MANY[:800]), outputs(after), LAST, Limits(), independent_samples=True)

    assert str(refused.value) == (
        f"Independent samples must share no question; got {count} in both files. Compare the same "
        "questions without declaring samples, or keep each question in one file only."
    )


@settings(deadline=None)
@given(*[st.lists(st.integers(0, 5), min_size=1, max_size=12)] * 2, st.booleans())
def test_statistical_answers_for_one_population_only(
    left: list[int], right: list[int], declared: bool
) -> None:
    """An interval needs the same questions in equal shares, or declared samples apart."""
    sides = [
        outputs([made(id=f"{side} {n}", prompt=str(q), text="5") for n, q in enumerate(asked)])
        for side, asked in enumerate((left, right))
    ]
    alike = all(left.count(q) * len(right) == right.count(q) * len(left) for q in range(6))
    apart = not set(left) & set(right)
    if declared and not apart:
        with pytest.raises(OutputsError, match="must share no question"):
            statistical(*sides, LAST, Limits(), independent_samples=True)
        return
    verdict = statistical(*sides, LAST, Limits(margin=100), independent_samples=declared)
    enough = min(len(left), len(right)) >= 5

    assert (verdict.numbers["interval"] is not None) == (enough and (alike or declared))
    assert verdict.answer == ("undetermined" if verdict.numbers["interval"] is None else "holds")


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
