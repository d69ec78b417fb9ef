"""From text to score: extractors, lengths and the knee, with the source's own tables."""

from __future__ import annotations

import random
import re
import threading
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_outputs import made, tokenised
from support import read_cases

from labkit.errors import OutputsError
from labkit.scoring import (
    EXTRACTORS,
    CapPoint,
    KneeLimits,
    calibrate,
    extractor,
    find_extractor,
    find_knee,
    report_lengths,
    score,
    split,
    spread,
    sweep,
    verifier,
)
from labkit.scoring.normalisation import as_number, numbers_in, same_answer

CASES = read_cases("extractors.json")
SOURCE = read_cases("source_scores.json")
LAST = EXTRACTORS["last_number"]
SURFACE = [name for name in EXTRACTORS if name != "math_verify"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_an_extractor_reads_a_text_as_its_case_says(case: dict[str, Any]) -> None:
    """Each rule takes the answer, counts the candidates and judges as stated beside its case."""
    output = made(text=case["text"], reference=case["reference"])

    (item,) = score([output], EXTRACTORS[case["extractor"]]).items

    assert (item.answer, item.candidates, item.outcome) == (
        case["answer"],
        case["candidates"],
        case["outcome"],
    )


def test_every_extractor_has_its_cases() -> None:
    """No registered rule is without a case."""
    assert set(EXTRACTORS) == {case["extractor"] for case in CASES}


@settings(deadline=None)
@given(st.text())
def test_no_text_breaks_a_surface_rule(text: str) -> None:
    """Whatever a model writes, a surface rule ends with one of the outcomes."""
    for name in SURFACE:
        (item,) = score([made(text=text, reference="7")], EXTRACTORS[name]).items

        assert item.outcome in ("right", "wrong", "missing")


@settings(deadline=None)
@given(st.fractions(), st.sampled_from(["{}", "${}", "{}%", "  {} "]))
def test_a_written_number_is_read_back(number: Fraction, form: str) -> None:
    """A fraction comes back exactly, with a currency or percent sign as well; the minus leads."""
    written = form.format(abs(number))

    assert as_number(written if number >= 0 else f"-{written.strip()}") == number


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=10**15))
def test_grouped_thousands_are_one_number(number: int) -> None:
    """Commas in threes do not split a number."""
    assert numbers_in(f"in all {number:,} of them") == [f"{number:,}"]


def test_a_number_of_too_many_digits_is_malformed() -> None:
    """A run of digits that Python refuses to read is no number, and no crash."""
    assert as_number("9" * 5000) is None
    assert not same_answer("9" * 5000, "9")


def test_texts_are_compared_plainly() -> None:
    """Answers that are no numbers are equal up to case, spaces and a full stop."""
    assert same_answer(" Paris.", "paris")
    assert not same_answer("Paris", "7")


def test_an_unknown_extractor_is_refused_with_the_nearest() -> None:
    """The refusal names the nearest and all known rules."""
    with pytest.raises(OutputsError) as refused:
        find_extractor("last_numbr")

    assert str(refused.value) == (
        "unknown extractor 'last_numbr'. Did you mean 'last_number'? "
        f"Known: {', '.join(EXTRACTORS)}."
    )


def test_a_name_that_is_taken_is_refused() -> None:
    """Two rules of one name could not be told apart in a record."""

    def last_number(text: str) -> list[str]:
        """Take nothing."""
        return []

    with pytest.raises(OutputsError) as refused:
        extractor(version=1)(last_number)

    assert str(refused.value) == (
        "an extractor called 'last_number' is registered already; choose another name."
    )


def test_nothing_is_judged_when_time_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tower of powers ends as not judged, which is not right and not wrong either."""
    monkeypatch.setattr(verifier, "LIMIT_S", 1)
    found = score([made(text=r"\boxed{9^{9^{9}}}", reference="6")], EXTRACTORS["math_verify"])

    assert (found.items[0].outcome, found.accuracy) == ("not judged", 0)
    assert found.to_json()["not_judged"] == 1


def test_the_verifier_needs_the_main_thread() -> None:
    """Without its alarm the verifier could run for ever, so another thread is refused."""
    told: list[str] = []

    def work() -> None:
        with pytest.raises(OutputsError) as refused:
            score([made(text="5", reference="5")], EXTRACTORS["math_verify"])
        told.append(str(refused.value))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert told == ["math_verify limits its time by an alarm, and so needs the main thread."]


def test_the_verifier_refuses_a_reference_it_cannot_read() -> None:
    """A reference that is no mathematics would make every answer wrong, so it is refused."""
    with pytest.raises(OutputsError, match="needs a reference that is mathematics"):
        score([made(text="5", reference="no idea")], EXTRACTORS["math_verify"])


def test_the_spread_counts_disputed_items() -> None:
    """The same outputs under two rules differ by the items that only one calls right."""
    outputs = [
        made(id="a", text="#### 5", reference="5"),
        made(id="b", text="it is 5", reference="5"),
        made(id="c", text="it is 6", reference="5"),
    ]

    found = spread([score(outputs, EXTRACTORS[name]) for name in ("last_number", "strict_marker")])

    assert (found.highest, found.lowest, found.disputed) == ("last_number", "strict_marker", 1)
    assert found.points == pytest.approx(100 / 3)


@pytest.mark.parametrize(
    "case", [c for c in SOURCE if c["kind"] == "scores"], ids=lambda c: c["why"]
)
def test_the_source_scores_follow_from_its_counts(case: dict[str, Any]) -> None:
    """Each printed accuracy is its printed count, and the spread is that of the accuracies."""
    printed = case["printed"].values()

    assert [round(100 * right / case["items"], 2) for right, _ in printed] == [
        percent for _, percent in printed
    ]
    assert round(max(p for _, p in printed) - min(p for _, p in printed), 2) == case["spread"]


@pytest.mark.parametrize("case", [c for c in SOURCE if c["kind"] == "knee"], ids=lambda c: c["why"])
def test_the_knee_of_the_source_tables(case: dict[str, Any]) -> None:
    """The knee finder returns the cap that the source's own table and tolerance give."""
    points = [
        CapPoint(cap=cap, accuracy=acc / 100, share_at_cap=None if at is None else at / 100)
        for cap, acc, at in case["points"]
    ]
    limits = KneeLimits(tolerance_points=case["tolerance"], max_share_at_cap=case["max_at_cap"])

    assert find_knee(points, limits) == case["cap"]


# ---- lengths ------------------------------------------------------------------------------


def test_lengths_report_cap_quantiles_and_reasons() -> None:
    """The report holds the cap, the distribution, the share at the cap and the stop reasons."""
    outputs = [made(id=str(n), output_tokens=n, stop_reason="stop") for n in range(1, 100)]
    outputs.append(made(id="long", output_tokens=128, stop_reason="length"))

    report = report_lengths(outputs)

    assert (report.cap_tokens, report.at_cap, report.share_at_cap) == (128, 1, 0.01)
    assert report.lengths == {"median": 50, "p90": 90, "p95": 95, "p99": 99, "max": 128}
    assert report.stop_reasons == {"stop": 99, "length": 1}


def test_caps_that_differ_are_not_made_one() -> None:
    """Outputs that reached caps of several lengths leave the cap unknown."""
    outputs = [made(id=str(n), output_tokens=n, stop_reason="length") for n in (64, 128)]

    assert report_lengths(outputs).cap_tokens is None


@pytest.mark.parametrize(
    ("prompt", "text", "answer", "reasoning"),
    [
        pytest.param("q", "it is 5", "it is 5", 0, id="none"),
        pytest.param("q", "<think>a b</think> 5", " 5", 3, id="closed"),
        pytest.param("q <think>\n", "a b</think> 5", " 5", 3, id="opened by the prompt"),
        pytest.param("q", "<think>a b c", "", 3, id="never closed"),
        pytest.param("q", "<think>a</think> 1 <think>a 7", "", 6, id="opened anew, never closed"),
        pytest.param("q <think>", "a b c", "", 3, id="opened by the prompt, never closed"),
    ],
)
def test_reasoning_is_split_from_the_answer(
    prompt: str, text: str, answer: str, reasoning: int
) -> None:
    """The answer is what follows the block, and tokens are counted on either side of its end."""
    pieces = re.findall(r"<think>a?|</think>| ?\w+| ", text)
    output = tokenised(pieces, prompt=prompt)

    parts = split(output)

    assert output.text == text
    assert (parts.answer, parts.reasoning_tokens) == (answer, reasoning)
    assert parts.answer_tokens == len(pieces) - reasoning


def test_reasoning_tokens_that_cannot_be_told_are_none() -> None:
    """A block in an output whose tokens were not kept has an unknown length, not zero."""
    output = made(text="<think>a</think> 5", output_tokens=9)

    parts = split(output)

    assert (parts.answer, parts.reasoning_tokens, parts.answer_tokens) == (" 5", None, None)
    assert report_lengths([output]).reasoning_tokens is None


def test_a_number_in_the_reasoning_is_no_answer() -> None:
    """An extractor reads only what follows the reasoning block."""
    (item,) = score([made(text="<think>it is 5", reference="5")], LAST).items

    assert item.outcome == "missing"


# ---- cutting and the knee -----------------------------------------------------------------


def test_a_cut_output_is_that_of_a_smaller_cap() -> None:
    """A cut keeps the first tokens and their text, and says that the cap ended it."""
    cut = tokenised(["it", " is", " 5"], token_ids=(7, 8, 9)).cut(2)

    assert (cut.text, cut.output_tokens, cut.stop_reason) == ("it is", 2, "length")
    assert (cut.token_ids, cut.token_ends) == ((7, 8), (2, 5))


def test_an_output_that_ended_in_time_is_not_cut() -> None:
    """A cap that an output did not pass leaves it, and its stop reason, as they are."""
    output = tokenised(["it", " is", " 5"])

    assert output.cut(3) is output


def test_a_sweep_scores_what_each_cap_leaves() -> None:
    """Accuracy rises and the share at the cap falls as outputs come to their end."""
    outputs = [tokenised(["so"] * n + [" 5"], id=str(n), reference="5") for n in range(4)]

    points = sweep(outputs, LAST, [4, 1, 2])

    assert [(p.cap, p.accuracy, p.share_at_cap, p.mean_tokens) for p in points] == [
        (1, 0.25, 0.75, 1.0),
        (2, 0.5, 0.5, 1.75),
        (4, 1.0, 0.0, 2.5),
    ]


def test_a_cap_past_the_outputs_own_is_refused() -> None:
    """What a truncated output would have gone on to say is not known."""
    outputs = [tokenised(["a", "b"], stop_reason="length")]

    with pytest.raises(OutputsError) as refused:
        sweep(outputs, LAST, [1, 3])

    assert str(refused.value) == (
        "a cap must not pass the one at which outputs ended; got cap=3, and some ended at 2. "
        "What they would have gone on to say is not known."
    )


def test_outputs_without_tokens_cannot_be_cut() -> None:
    """A text alone does not say where a token ended."""
    with pytest.raises(OutputsError) as refused:
        sweep([made(id="a", text="it is 5", output_tokens=3)], LAST, [2])

    assert str(refused.value) == (
        "an output must have token_ends to be cut at a cap; item 'a' has none."
    )


@pytest.mark.parametrize(("late", "confirmed"), [(0, True), (4, False)])
def test_a_knee_is_confirmed_on_items_that_did_not_choose_it(late: int, confirmed: bool) -> None:
    """The cap is chosen on one half alone, and fails where the other half needs more tokens."""
    outputs = []
    for n in range(20):
        words = 1 + (late if n % 2 else 0)
        pieces = ["so"] * words + [" 5"]
        outputs.append(tokenised(pieces, id=str(n), reference="5", cluster="one"))

    knee = calibrate(outputs, LAST, [1, 2, 6], KneeLimits())

    assert (knee.cap, knee.confirmed) == (2, confirmed)


def test_a_knee_needs_a_half_to_hold_out() -> None:
    """One item cannot be both chosen on and held out."""
    with pytest.raises(OutputsError) as refused:
        calibrate([tokenised(["5"])], LAST, [1], KneeLimits())

    assert str(refused.value) == (
        "a knee needs two items of one cluster at least, to hold one out."
    )


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_the_knee_never_lies_above_its_plateau(seed: int) -> None:
    """Of any sweep with little truncation the knee is a cap of it, and a wider tolerance gives no
    larger one.
    """
    chance = random.Random(seed)
    points = [CapPoint(cap=2**n, accuracy=chance.random(), share_at_cap=0.0) for n in range(3, 9)]
    found = [find_knee(points, KneeLimits(tolerance_points=t)) for t in (1.0, 10.0)]

    assert None not in found
    assert found[1] <= found[0] <= 256
