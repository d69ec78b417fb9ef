"""The section of scores: from a folder of variants to rows, and from rows to figures."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sections
from made_outputs import tokenised
from support import ROOT

from labkit import charts
from labkit.charts.numbers import numbers_of
from labkit.errors import OutputsError, ResultsError
from labkit.experiments import scores
from labkit.experiments._questions import write_questions
from labkit.outputs import OUTPUTS_NAME, write_outputs
from labkit.record import read_record
from labkit.results import read_results

FROZEN = ROOT / "data/outputs"
NAMES = sorted(path.parent.name for path in FROZEN.glob(f"*/{OUTPUTS_NAME}"))


@pytest.fixture
def section() -> dict[str, Any]:
    """Return a section of two variants that a test may change."""
    return copy.deepcopy(sections.from_text_to_score())


def test_the_section_holds_scores_knee_and_comparisons(section: dict[str, Any]) -> None:
    """Rows, sweep, lengths and comparisons are those of the folder's outputs."""
    summary = section["summary"]
    (impact,) = section["impacts"]

    assert {row["extractor"]: row["right"] for row in section["rows"]}["last_number"] == 38
    assert (summary["items"], summary["clusters"], summary["at_cap"]) == (40, 10, 0)
    assert (summary["knee"], summary["knee_confirmed"]) == (16, True)
    assert (impact["variant"], impact["divergence"]["different"]) == ("int8", 2)
    assert [item["change"] for item in impact["changed_items"]] == ["gained", "lost"]
    assert summary["variants"]["int8"]["bitwise"] == "does not hold"


def test_the_section_is_stored_and_read_again(tmp_path: Path) -> None:
    """A run's folder takes the section under its schema, and its numbers have keys of their own."""
    sections.write_variants(tmp_path / "outputs")
    made = scores.run("quick", tmp_path / "run", folder=tmp_path / "outputs")
    read = read_results(tmp_path / "run")["from_text_to_score"]
    numbers = numbers_of("from_text_to_score", read)

    assert read == json.loads(json.dumps(made))
    assert numbers["from_text_to_score.variants.int8.lost"] == 1
    assert numbers["from_text_to_score.row.boxed.missing"] == 40


def test_a_folder_without_the_reference_is_refused(tmp_path: Path) -> None:
    """Nothing can be compared with a reference that is not there."""
    with pytest.raises(OutputsError) as refused:
        scores.run(folder=tmp_path)

    assert str(refused.value) == (
        f"a folder of variants must hold float32/outputs.jsonl; got {tmp_path.name}/ without it. "
        "Make it with `labkit outputs float32`."
    )


def test_a_variant_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    """The reference alone is scored and swept, and its chart of pairs is refused."""
    sections.write_variants(tmp_path)
    (tmp_path / "int8" / OUTPUTS_NAME).unlink()
    alone = scores.run(folder=tmp_path)

    assert [row["variant"] for row in alone["lengths"]] == ["float32"]
    assert (alone["impacts"], alone["summary"]["variants"]) == ([], {})
    with pytest.raises(ResultsError, match="at least one of its 'impacts'"):
        charts.transition_matrix(alone)


def test_outputs_that_are_still_cut_have_no_knee(tmp_path: Path) -> None:
    """Where half of the outputs reach the largest cap, section, chart and table name no knee."""
    items = [
        tokenised(
            ["so"] * 95 + [" 5"],
            id=str(n),
            cluster=str(n // 4),
            token_ids=tuple(range(96)),
            stop_reason="length" if n % 4 < 2 else "stop",
        )
        for n in range(40)
    ]
    write_outputs(tmp_path / "float32" / OUTPUTS_NAME, items)
    found = scores.run(folder=tmp_path)

    assert (found["summary"]["knee"], found["summary"]["knee_confirmed"]) == (None, None)
    assert charts.cap_knee(found).description.endswith("No cap is a knee.")
    assert set(charts.sweep_table(found)["knee"]) == {""}


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (charts.extractor_spread, "last_number calls 38 of 40 right"),
        (charts.cap_knee, "The knee is at 16."),
        (charts.transition_matrix, "int8 weights, batches of 16: 1 lost and 1 gained of 40"),
    ],
)
def test_each_figure_says_in_words_what_it_shows(
    draw: Callable[[Any], Any], said: str, section: dict[str, Any]
) -> None:
    """The description of a figure names the section's numbers."""
    assert said in draw(section).description


def test_a_cell_shows_its_pairs(section: dict[str, Any]) -> None:
    """Each of the four cells of a variant is drawn with its count."""
    spec = charts.transition_matrix(section).to_dict()
    (cells,) = spec["datasets"].values()

    assert [(cell["cell"], cell["pairs"]) for cell in cells] == [
        ("right → right", 37),
        ("right → wrong", 1),
        ("wrong → right", 1),
        ("wrong → wrong", 1),
    ]


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        (charts.scores_table, 5),
        (charts.disputed_table, 38),
        (charts.lengths_table, 2),
        (charts.sweep_table, 16),
        (charts.impact_table, 1),
        (charts.verdicts_table, 3),
        (charts.changed_items_table, 2),
    ],
)
def test_each_table_has_its_rows(
    table: Callable[[Any], pd.DataFrame], rows: int, section: dict[str, Any]
) -> None:
    """A table has one row for what it lists, and no cell without a value."""
    shown = table(section)

    assert len(shown) == rows
    assert not shown.isna().any().any()


def test_no_changed_item_is_an_empty_table(section: dict[str, Any]) -> None:
    """Where no outcome changed, the table of changed items has its columns and no row."""
    section["impacts"][0]["changed_items"] = []

    assert list(charts.changed_items_table(section).columns) == [
        "item",
        "before",
        "after",
        "change",
    ]
    assert len(charts.changed_items_table(section)) == 0


# ---- the frozen outputs ------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_frozen_outputs_are_those_of_their_record(name: str) -> None:
    """Each frozen file has the digest that its record holds, and was made from a clean commit."""
    sets = scores.load_sets(FROZEN)
    record = read_record(FROZEN / name)
    commit = record.in_force("evaluation.harness")

    assert record.status == "finished"
    assert [artefact.sha256 for artefact in record.artefacts] == [sets[name].sha256]
    assert isinstance(commit, dict)
    assert commit["dirty"] is False


def test_every_frozen_variant_can_be_compared() -> None:
    """There is a reference and a variant, and all of them answer the lab's own questions."""
    sets = scores.load_sets(FROZEN)
    asked = {tuple((o.id, o.prompt, o.reference) for o in found.items) for found in sets.values()}

    assert next(iter(sets)) == "float32"
    assert len(sets) >= 2
    assert asked == {tuple((q.id, q.prompt, q.reference) for q in write_questions())}


def test_the_page_quotes_numbers_that_the_section_has() -> None:
    """Each number that the book's page quotes is one of the frozen outputs' section."""
    page = (ROOT / "book/chapter/from_text_to_score.md").read_text(encoding="utf-8")
    quoted = set(re.findall(r"ipynb::(from_text_to_score\.[\w.]+):", page))
    numbers = numbers_of("from_text_to_score", scores.run(folder=FROZEN))

    assert len(quoted) > 5
    assert quoted - set(numbers) == set()
