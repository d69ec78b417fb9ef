"""Brackets, rungs, metadata and claims: nothing is said beyond what was compared."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, read_cases

from labkit.errors import EvidenceError
from labkit.evidence import (
    FACTORS,
    Claim,
    Design,
    Rung,
    Trials,
    effective_context,
    evidence_from_json,
)

SOURCE = json.loads((ROOT / "data/reference/evidence_cases.json").read_text(encoding="utf-8"))
GOOD = {
    "provenance": "measured",
    "validation": "repeated",
    "runs": 5,
    "families": ["Qwen3"],
    "scope": {
        "checkpoint": "Qwen3-8B",
        "task": "none",
        "workload": "batch 8, long prompts",
        "hardware": "one H100",
        "software": "vLLM 0.23",
    },
    "status": "canonical",
    "contract": "capacity",
    "artifact": "results/mine/results.json",
}
ALL_HELD = {factor: "held" for factor in FACTORS if factor != "component"}


# ---- effective context -------------------------------------------------------------------


def cells(*passed: int | None, trials: int = 30) -> list[Trials]:
    """Make trials at 1,000, 2,000, … tokens."""
    return [
        Trials(length=1000 * place, passed=count, trials=trials)
        for place, count in enumerate(passed, start=1)
    ]


@pytest.mark.parametrize("case", SOURCE["contexts"], ids=lambda case: case["key"])
def test_a_bracket_of_the_source_comes_out(case: dict) -> None:
    """The last pass and the first fail follow from the printed trials and the threshold."""
    bracket = effective_context(
        [Trials(**cell) for cell in case["cells"]], threshold=case["threshold"]
    )

    assert (bracket.last_pass, bracket.first_fail) == (case["last_pass"], case["first_fail"])


counts = st.lists(st.one_of(st.none(), st.integers(0, 30)), min_size=1, max_size=12)
thresholds = st.integers(1, 100).map(lambda percent: Fraction(percent, 100))


@given(counts, thresholds, st.integers(1, 20_000))
def test_a_bracket_never_claims_beyond_its_last_pass(
    passed: list[int | None], threshold: Fraction, length: int
) -> None:
    """A supported length has a passed length at or above it, and no failed one below."""
    made = cells(*passed)
    known = [cell for cell in made if cell.passed is not None]
    if not known:
        return
    bracket = effective_context(made, threshold=str(threshold))
    good = {cell.length: Fraction(cell.passed, cell.trials) >= threshold for cell in known}
    if bracket.supports(length):
        assert any(ok for tested, ok in good.items() if tested >= length)
        assert all(ok for tested, ok in good.items() if tested <= bracket.last_pass)
    if length > max(good) and bracket.first_fail is None:
        assert bracket.supports(length) is None


def test_a_bracket_says_nothing_where_nothing_was_measured() -> None:
    """Gaps of the plan and lengths outside it are open; between two passes and past a fail not."""
    bracket = effective_context(cells(30, None, 30, None, 9, None), threshold=1)
    asked = (1, 999, 1000, 1001, 2000, 3000, 3001, 4000, 4999, 5000, 5001, 6000)
    said = [bracket.supports(length) for length in asked]

    assert said == [None, None, True, True, None, True, None, None, None, False, False, None]
    assert effective_context(cells(9, 30), threshold=1).supports(999) is None


@pytest.mark.parametrize("length", [0, -5, True, 1.5])
def test_a_length_that_counts_no_token_is_refused(length: object) -> None:
    """No bracket answers for less than a token, or for a part of one."""
    bracket = effective_context(cells(30), threshold=1)
    with pytest.raises(EvidenceError) as caught:
        bracket.supports(length)

    assert str(caught.value) == (
        f"`length` must be a whole number above zero; got length={length!r}."
    )


@given(counts, thresholds, thresholds)
def test_a_stricter_threshold_never_widens_the_range(
    passed: list[int | None], one: Fraction, other: Fraction
) -> None:
    """The last pass does not grow as the threshold rises."""
    made = cells(*passed)
    if all(cell.passed is None for cell in made):
        return
    lax, strict = (effective_context(made, threshold=str(t)) for t in sorted((one, other)))

    assert (strict.last_pass or 0) <= (lax.last_pass or 0)


@pytest.mark.parametrize(
    ("passed", "says"),
    [
        pytest.param(
            (30, None, 9, 10),
            "between 1,000 (passed) and 3,000 (failed) at a threshold of 0.85; "
            "not evaluated at 2,000",
            id="bracket",
        ),
        pytest.param(
            (30, 30),
            "at least 2,000, the longest length evaluated, at a threshold of 0.85",
            id="open above",
        ),
        pytest.param(
            (9, 30),
            "below 1,000, the shortest length evaluated, at a threshold of 0.85; "
            "passes again at 2,000, which extends nothing",
            id="open below",
        ),
    ],
)
def test_a_bracket_says_what_was_left_out(passed: tuple, says: str) -> None:
    """The range comes with its threshold, its gaps and what it ignores."""
    assert str(effective_context(cells(*passed), threshold=0.85)) == says


@pytest.mark.parametrize("case", read_cases("curves_refused.json"), ids=lambda case: case["why"])
def test_a_bad_curve_is_refused_in_full(case: dict) -> None:
    """Unusable trials and thresholds are refused by name and number."""
    with pytest.raises(EvidenceError) as caught:
        effective_context([Trials(**cell) for cell in case["cells"]], threshold=case["threshold"])

    assert str(caught.value) == case["error"]


# ---- the ladder and claims ---------------------------------------------------------------


@pytest.mark.parametrize("case", SOURCE["comparisons"], ids=lambda case: case["key"])
def test_a_comparison_of_the_source_reaches_its_rung(case: dict) -> None:
    """What a comparison held fixed gives the rung that the case states."""
    assert Design(factors=case["factors"]).rung == case["rung"]


designs = st.dictionaries(
    st.sampled_from(FACTORS), st.sampled_from(("held", "varied", "unknown"))
).map(lambda factors: Design(factors=factors))


@given(designs, st.sampled_from(Rung))
def test_no_claim_is_stronger_than_its_design(design: Design, rung: Rung) -> None:
    """A claim above the design's rung is refused, one at or below it is made."""
    evidence = evidence_from_json(GOOD)
    claim = {"result": "A kept more", "contract": "capacity", "evidence": evidence}
    if rung <= design.rung:
        assert rung.words in Claim(rung=rung, design=design, **claim).sentence
    else:
        with pytest.raises(EvidenceError, match="A claim must be carried by its evidence"):
            Claim(rung=rung, design=design, **claim)


@given(designs, st.sampled_from(FACTORS))
def test_forgetting_a_factor_never_lifts_a_comparison(design: Design, factor: str) -> None:
    """A factor that is no longer on record leaves the rung where it was, or lowers it."""
    kept = {name: state for name, state in design.factors.items() if name != factor}

    assert Design(factors=kept).rung <= design.rung


def test_each_rung_can_be_reached_and_lost() -> None:
    """A paired ablation is causal; take one thing away and it is the rung below."""
    causal = Design(factors={**ALL_HELD, "component": "varied"})
    falls = {
        name: Design(factors={**causal.factors, name: "unknown"}).rung
        for name in ("component", "tokenizer", "engine")
    }

    assert causal.rung is Rung.CAUSAL
    assert falls == {
        "component": Rung.MATCHED,
        "tokenizer": Rung.CONTROLLED,
        "engine": Rung.BOUNDARY,
    }


def test_a_claim_names_every_reason_against_it() -> None:
    """Rung, contract and status are all named at once."""
    superseded = evidence_from_json({**GOOD, "status": "superseded"})
    with pytest.raises(EvidenceError) as caught:
        Claim(
            result="Hybrids are faster.",
            rung=Rung.CONTROLLED,
            contract="latency",
            design=Design(factors={"hardware": "held", "workload": "held", "metric": "held"}),
            evidence=superseded,
        )

    assert str(caught.value) == (
        "A claim must be carried by its evidence; got a controlled operational claim from a "
        "boundary comparison (engine is unknown); a claim about latency from evidence about "
        "capacity; evidence whose status is superseded. Claim less, or measure more."
    )


def test_a_sentence_names_what_was_not_held() -> None:
    """The sentence carries its label and the factors that differed or are not on record."""
    design = Design(factors={**ALL_HELD, "scale": "varied", "training": "unknown"})
    claim = Claim(
        result="The pool of A was larger",
        rung=Rung.CONTROLLED,
        contract="capacity",
        design=design,
        evidence=evidence_from_json(GOOD),
    )

    assert claim.sentence == (
        "The pool of A was larger. This is a controlled operational comparison; "
        "not held fixed: scale, training."
    )


@pytest.mark.parametrize(
    ("factors", "error"),
    [
        (
            {"engin": "held"},
            f"A factor must be one of {', '.join(FACTORS)}; got 'engin'. Did you mean 'engine'?",
        ),
        ({"engine": "yes"}, "The state of engine must be one of held, varied, unknown; got 'yes'."),
    ],
)
def test_an_unknown_word_of_a_design_is_refused(factors: dict, error: str) -> None:
    """Factors and their states are closed sets of words."""
    with pytest.raises(EvidenceError) as caught:
        Design(factors=factors)

    assert str(caught.value) == error


# ---- metadata ----------------------------------------------------------------------------


def test_complete_evidence_is_read() -> None:
    """The sample that the next test breaks is accepted."""
    assert evidence_from_json(GOOD).validation == "repeated"


@pytest.mark.parametrize("case", read_cases("evidence_refused.json"), ids=lambda case: case["why"])
def test_incomplete_or_inconsistent_evidence_is_refused(case: dict) -> None:
    """Each dimension is stated, in known words, and none denies another."""
    with pytest.raises(EvidenceError) as caught:
        evidence_from_json({**GOOD, **case["change"]})

    assert str(caught.value) == case["error"]


def test_evidence_of_other_shape_is_refused() -> None:
    """A list and a missing field are refused by name."""
    with pytest.raises(EvidenceError, match="must be a JSON object; got list"):
        evidence_from_json([])
    for name in ("runs", "families"):
        with pytest.raises(EvidenceError, match=f"missing 1 required .* argument: '{name}'"):
            evidence_from_json({key: GOOD[key] for key in GOOD if key != name})
