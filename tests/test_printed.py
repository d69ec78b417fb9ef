"""The source's printed figures, recomputed from its printed inputs."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

from labkit.errors import PlanningError
from labkit.planning import FORMULAS, PrintedFigure, load_printed, recompute
from labkit.planning.printed import AGREEMENTS, PrintedInput

FILE = ROOT / "data/reference/printed_figures.json"
FIGURES = load_printed(FILE)
BY_KEY = {figure.key: figure for figure in FIGURES}


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.key)
def test_a_printed_figure_compares_as_stated(figure: PrintedFigure) -> None:
    """Each printed figure agrees with its printed inputs, or not, as its case says."""
    assert recompute(figure).agreement == figure.agreement


def test_a_printed_figure_says_where_and_why() -> None:
    """Each has its place in the source, its words, and a reason to be there."""
    assert [f.key for f in FIGURES if not all((f.place, f.what, f.why, f.printed))] == []


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.key)
def test_a_figure_one_digit_off_does_not_agree(figure: PrintedFigure) -> None:
    """Move a printed figure by two units of its last digit and it no longer agrees."""
    digits = len(figure.printed.partition(".")[2])
    moved = float(figure.printed.replace(",", "")) + 2 * 10**-digits
    off = dataclasses.replace(figure, printed=f"{moved:.{digits}f}")
    if figure.agreement == "agrees":
        assert recompute(off).agreement != "agrees"


def test_every_formula_has_a_printed_figure_or_a_reason() -> None:
    """Formulas that no figure of the source needs are those that need a whole bill."""
    assert set(FORMULAS) - {figure.formula for figure in FIGURES} == {"cost_per_success"}


def test_the_headline_figures_are_recomputed() -> None:
    """The figures that the source's capacity and cost chapters are known by all come out."""
    ours = {
        key: recompute(BY_KEY[key]).figure.printed
        for key, figure in BY_KEY.items()
        if figure.agreement == "agrees"
    }
    counts = [ours[f"capacity.14b_{length}"] for length in (2048, 8192, 16384, 32768)]

    assert counts == ["119", "29", "14", "7"]
    assert [ours["capacity.8b_16k"], ours["capacity.hybrid_16k"]] == ["13", "52"]
    assert ours["cost_ratio.static_1"] == "126.7"
    assert [ours["cost.static_1"], ours["cost.continuous"]] == ["7.96", "0.063"]


def test_disagreements_are_explained_and_counted() -> None:
    """Whatever does not agree says why in more words than a label."""
    found = Counter(figure.agreement for figure in FIGURES)

    assert set(found) == set(AGREEMENTS)
    assert all(len(f.why.split()) > 7 for f in FIGURES if f.agreement == "disagrees")


def test_a_cost_is_estimated_and_a_count_derived() -> None:
    """The label of the weakest input is the label of the figure."""
    assert recompute(BY_KEY["cost.continuous"]).ours.label == "estimated"
    assert recompute(BY_KEY["prefill.8k"]).ours.label == "derived"


def ratio_of(of: str, to: str, *, printed: str) -> PrintedFigure:
    """Make a figure that is a ratio of two printed rates."""
    inputs = {
        name: PrintedInput(value=value, unit="output token/s")
        for name, value in {"of": of, "to": to}.items()
    }
    return PrintedFigure(
        key="k",
        place="p",
        what="w",
        formula="ratio",
        inputs=inputs,
        printed=printed,
        unit="",
        agreement="agrees",
        why="y",
    )


@given(st.integers(100, 10**6), st.integers(100, 10**6), st.integers(-40, 40), st.integers(0, 3))
def test_rounding_the_inputs_never_makes_a_true_figure_disagree(
    of: int, to: int, shift: int, digits: int
) -> None:
    """A ratio of the unrounded rates agrees, or is within rounding, of the rounded ones."""
    true = (of + shift / 100) / (to - shift / 100)
    figure = ratio_of(str(of), str(to), printed=f"{true:.{digits}f}")

    assert recompute(figure).agreement != "disagrees"


def test_within_rounding_is_neither_of_the_others() -> None:
    """2.5 is what 10 over 4 gives; 2.6 needs inputs that rounded; 3.1 no inputs give."""
    given = [
        recompute(ratio_of("10", "4", printed=text)).agreement for text in ("2.5", "2.6", "3.1")
    ]

    assert given == list(AGREEMENTS)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param(
            {"formula": "rato"},
            "A formula must be a known one; got 'rato'. Try ratio.",
            id="formula",
        ),
        pytest.param(
            {"unit": "J"},
            "A unit can only become one of the same kind; got '' and 'J'. "
            "Another denominator needs a measurement of its own.",
            id="unit",
        ),
        pytest.param(
            {"printed": "many"}, "A number must be finite; got value='many'.", id="no number"
        ),
        pytest.param(
            {"inputs": {}},
            "The inputs of ratio must be the ones it names; got none: "
            "missing a required argument: 'of'.",
            id="inputs",
        ),
    ],
)
def test_a_bad_figure_is_refused_in_full(change: dict, error: str) -> None:
    """A figure that cannot be recomputed is refused by name."""
    with pytest.raises(PlanningError) as caught:
        recompute(dataclasses.replace(ratio_of("10", "4", printed="2.5"), **change))

    assert str(caught.value) == error


def test_a_broken_file_of_figures_is_refused(tmp_path: Path) -> None:
    """A missing field, another type and two equal keys are refused by name."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    first = stored["figures"][0]
    for figures, says in (
        ([{key: first[key] for key in first if key != "why"}], "missing 1 required"),
        ([first, first], "Each printed figure needs its own key; got throughput.batched"),
        ([None], "printed.json: "),
    ):
        file = tmp_path / "printed.json"
        file.write_text(json.dumps({"figures": figures}))
        with pytest.raises(PlanningError) as caught:
            load_printed(file)

        assert says in str(caught.value)
