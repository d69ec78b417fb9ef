"""The section of capacity and cost, its figure and its tables."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import sections
from support import ROOT

from labkit import charts
from labkit.errors import EvidenceError, ResultsError
from labkit.experiments import capacity_and_cost
from labkit.results import read_results

SECTION = sections.capacity_and_cost()


def points(checkpoint: str) -> dict[int, tuple[int, int]]:
    """Return a checkpoint's two bounds at each length."""
    return {
        point["tokens"]: (point["surely"], point["at_most"])
        for point in SECTION["growth"]
        if point["checkpoint"] == checkpoint
    }


def test_a_pool_holds_what_the_caches_take() -> None:
    """16 GiB over the bytes of one sequence: the counts of two checkpoints, by hand."""
    gib = 2**30

    assert points("llama-3.2-1b")[8192] == (16 * gib // (32_768 * 8192),) * 2
    assert points("gpt2")[1024] == (16 * gib // (36_864 * 1024),) * 2


def test_bounds_part_only_beyond_a_window_of_unknown_layers() -> None:
    """The two bounds differ for the three files that name a window and not its layers."""
    parted = {p["checkpoint"] for p in SECTION["growth"] if p["surely"] != p["at_most"]}

    assert parted == {"gemma-2-2b", "mistral-7b-v0.1", "phi-3-mini-4k-instruct"}
    assert points("mistral-7b-v0.1")[4096] == (32, 32)
    assert points("mistral-7b-v0.1")[32_768] == (4, 32)


def test_capacity_never_rises_with_length() -> None:
    """Along a checkpoint's line neither bound rises, and the sure one is never above."""
    for checkpoint in {point["checkpoint"] for point in SECTION["growth"]}:
        found = points(checkpoint)
        lengths = sorted(found)
        for short, long in pairwise(lengths):
            assert found[long][0] <= found[short][0]
            assert found[long][1] <= found[short][1]
        assert all(surely <= at_most for surely, at_most in found.values())


def test_half_the_pool_holds_at_most_half() -> None:
    """The counts move with the pool, and rounding never favours the smaller one."""
    half = capacity_and_cost.run("quick", None, pool_bytes=capacity_and_cost.POOL_BYTES // 2)

    assert half["summary"]["pool_gib"] == 8
    for small, large in zip(half["growth"], SECTION["growth"], strict=True):
        assert large["surely"] // 2 - 1 <= small["surely"] <= large["surely"] / 2


def test_the_summary_counts_the_rows() -> None:
    """Every figure is counted once, under what came of it."""
    summary = SECTION["summary"]

    assert summary["figures"] == len(SECTION["rows"])
    assert (
        summary["agrees"] + summary["within_rounding"] + summary["disagrees"] == summary["figures"]
    )
    assert summary["labels_off_the_ladder"] == 2


def test_the_section_is_stored_and_read(tmp_path: Path) -> None:
    """The section follows its schema on the way to results.json and back."""
    made = capacity_and_cost.run("quick", tmp_path / "run")
    stored = read_results(tmp_path / "run")["capacity_and_cost"]

    assert stored == json.loads(json.dumps(made))


def test_numbers_of_a_figure_have_keys() -> None:
    """Prose can quote what was printed and what follows from the printed inputs."""
    numbers = charts.numbers_of("capacity_and_cost", SECTION)

    assert numbers["capacity_and_cost.row.cost.static_1.printed"] == "7.96"
    assert numbers["capacity_and_cost.row.cost.static_1.ours"] == "7.959"
    assert numbers["capacity_and_cost.row.capacity.hybrid_16384.ours"] == "51"


@pytest.mark.parametrize(
    ("table", "row", "column", "cell"),
    [
        (charts.capacity_table, "mistral-7b-v0.1", "8,192", "16 to 32"),
        (charts.capacity_table, "gpt2", "2,048", "–"),
        (charts.capacity_table, "llama-3.2-3b", "131,072", "1"),
        (charts.context_table, "six-step tracking, Qwen3-14B", "threshold", "85%"),
        (
            charts.comparison_table,
            "one part of the architecture varied, all else paired",
            "the next rung lacks",
            "–",
        ),
        (
            lambda section: charts.printed_table(section, topics=("capacity",)),
            "Qwen3-14B, sequences of 2,048 tokens",
            "from printed inputs",
            "119",
        ),
    ],
)
def test_a_cell_says_what_the_section_holds(table, row: str, column: str, cell: str) -> None:
    """Tables show both bounds where they differ, and a dash where there is nothing."""
    assert table(SECTION).loc[row, column] == cell


def test_disagreements_come_with_their_reason() -> None:
    """The table of disagreements has every one, each with its why."""
    table = charts.printed_table(SECTION, agreement="disagrees")

    assert len(table) == SECTION["summary"]["disagrees"]
    assert table["why"].str.len().min() > 20


def test_a_table_of_no_figure_is_refused() -> None:
    """A misspelt topic gives an error, not an empty table."""
    with pytest.raises(ResultsError) as caught:
        charts.printed_table(SECTION, topics=("capacities",))

    assert str(caught.value) == (
        "a table must have a figure; got topics=('capacities',), agreement=None with none."
    )


def test_a_figure_of_no_capacity_is_refused() -> None:
    """A pool that holds nothing has no line."""
    none = [point | {"surely": 0} for point in SECTION["growth"]]
    with pytest.raises(ResultsError, match="at least one sequence must fit to be drawn"):
        charts.capacity_growth(SECTION | {"growth": none})


def test_an_unknown_count_is_not_drawn_as_room() -> None:
    """A checkpoint whose count is not known is named, and its cell says so."""
    open_ended = [
        point | {"surely": None, "why": "state"} if point["checkpoint"] == "gpt2" else point
        for point in SECTION["growth"]
    ]
    section = SECTION | {"growth": open_ended}

    assert "No place for some lengths of gpt2." in charts.capacity_growth(section).description
    assert charts.capacity_table(section).loc["gpt2", "1,024"] == "not known, at most 455"


def test_a_count_without_a_bound_says_so() -> None:
    """A point with neither bound has a cell that claims none."""
    growth = [
        point | {"surely": None, "at_most": None, "why": "state"} for point in SECTION["growth"]
    ]

    assert charts.capacity_table(SECTION | {"growth": growth}).loc["gpt2", "1,024"] == "not known"


def test_a_broken_file_of_evidence_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case without its factors is refused with the file's name."""
    stored = json.loads((ROOT / "data/reference/evidence_cases.json").read_text("utf-8"))
    del stored["comparisons"][0]["factors"]
    file = tmp_path / "evidence_cases.json"
    file.write_text(json.dumps(stored))
    real = capacity_and_cost._reference
    monkeypatch.setattr(
        capacity_and_cost,
        "_reference",
        lambda name: file if name == "evidence_cases.json" else real(name),
    )
    with pytest.raises(EvidenceError) as caught:
        capacity_and_cost.run("quick", None)

    assert str(caught.value) == (
        "evidence_cases.json must hold contexts and comparisons; got KeyError('factors'). "
        "Restore it from the repository."
    )
