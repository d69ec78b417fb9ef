"""The live figures of the book, and the tables behind its charts."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import sections
from support import ROOT

from labkit import charts, sphinx_figures
from labkit.charts.behind import tables_behind
from labkit.errors import LabError
from labkit.figures._stored import GEMMA, LLAMACPP, stored_section


@pytest.fixture
def stage() -> Path:
    """Return the folder of a published run, whose results a book shows."""
    return ROOT / "results/published-quick"


def cells(html: str) -> list[list[str]]:
    """Return the cells of a table by row."""
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    return [[unescape(c) for c in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


def test_the_table_behind_has_each_run_once() -> None:
    """Each mark of the boundary figure is a row with what its tooltip says, in its order."""
    section = sections.preservation()
    head, *rows = cells(tables_behind(charts.as_stored(charts.boundary(section))))

    assert head[:4] == ["option", "kind", "prompt", "outcome"]
    assert [row[2] for row in rows] == [run["prompt"] for run in section["runs"]]
    assert {row[3] for row in rows} == {"identical", "diverged"}


def test_the_table_behind_says_nothing_for_what_is_not_there() -> None:
    """What a row lacks is a dash, text is escaped, and a number stays short."""
    spec = {
        "data": {"values": [{"a": None, "b": "<i>", "c": 0.123456, "d": True, "e": 12345}]},
        "encoding": {"tooltip": [{"field": key} for key in "abcde"]},
    }

    assert cells(tables_behind(spec))[1] == ["–", "<i>", "0.1235", "yes", "12,345"]


def test_a_chart_without_tooltips_has_no_table() -> None:
    """Where pointing finds nothing there is nothing to list."""
    assert tables_behind({"mark": "bar", "data": {"values": [{"a": 1}]}}) == ""


CHARTS = [
    "boundary",
    "margins",
    "cache",
    "convergence",
    "verdicts",
    "another_stack",
    "another_family",
]


@pytest.mark.parametrize("name", CHARTS)
def test_a_figure_of_charts_has_words_and_a_table(stage: Path, name: str) -> None:
    """A live figure made of charts has a text alternative and its table."""
    html = sphinx_figures.render(name, stage=stage)

    assert 'class="labkit-chart" role="figure" aria-label="' in html
    assert '<details class="labkit-table">' in html


def test_each_probe_opens_to_its_evidence() -> None:
    """Each probe is a row with its outcome, and what it holds is escaped text, not markup."""
    section = sections.fallbacks()
    section["rows"][0] |= {"said": "<script>no</script>"}
    html = sphinx_figures.figure_named("probes").render({"fallbacks": section})
    outcomes = [row["outcome"] for row in section["rows"]]
    shown = re.findall(r'data-outcome="(\w*)"><span class="visually-hidden">this run', html)

    assert sorted(shown) == sorted(outcomes)
    assert html.count('<details class="labkit-probe">') == len(outcomes)
    assert "&lt;script&gt;no&lt;/script&gt;" in html


def readable() -> dict[str, Any]:
    """Make a preservation section whose differences have their texts."""
    section = sections.preservation()
    for run in section["runs"]:
        run["context"] = (
            None
            if run["identical"]
            else {
                "before": "Once upon",
                "baseline_after": " time </script>",
                "variant_after": " while",
                "candidates": [
                    {"token": " the", "baseline": 9.5, "variant": 9.25},
                    {"token": " a", "baseline": 9.0, "variant": 9.75},
                ],
            }
        )
    return section


def test_the_reader_holds_each_difference_inert() -> None:
    """Each run that left the baseline is an entry, and no text of a model can end the block."""
    section = readable()
    html = sphinx_figures.figure_named("reader").render({"preservation": section})
    block = re.search(r'<script type="application/json">(.*?)</script>', html, re.S)

    assert block is not None
    entries = json.loads(block[1])
    assert len(entries) == sum(not run["identical"] for run in section["runs"])
    assert entries[0]["baseline_after"] == " time </script>"


def test_the_reader_says_why_there_is_nothing_to_read() -> None:
    """A run recorded without texts, and one in which nothing parted, are told apart."""
    render = sphinx_figures.figure_named("reader").render
    old = sections.preservation()
    same = {**old, "runs": [run for run in old["runs"] if run["identical"]]}

    assert "recorded before the texts" in render({"preservation": old})
    assert "No run left the baseline" in render({"preservation": same})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("too_small", "effect (float32 roundings)"),
        ("widths", "SmolLM2-135M"),
        ("experts", "different artefact"),
        ("reference", "distance (float32 roundings)"),
    ],
)
def test_a_table_of_the_benchmark_has_rows(stage: Path, name: str, says: str) -> None:
    """Each table of the stored benchmark says what it should and has at least two rows of it."""
    html = sphinx_figures.render(name, stage=stage)

    assert says in html
    assert html.count("<tr") >= 3


def test_the_deployment_is_shown_with_what_each_difference_changes() -> None:
    """The table has the deployment's rows only, as text, and both identities in short."""
    section = sections.records()
    section["rows"][1] |= {"other": "<b>", "plain": f"sha256 {'c' * 64}"}
    html = sphinx_figures.figure_named("deployment").render({"records": section})
    fields = re.findall(r"<th>([a-z]+\.[a-z]+)</th>", html)

    assert fields == [row["field"] for row in section["rows"] if row["run"] == "deployed"]
    assert cells(html.replace("\n", "").replace("  ", ""))[1][1:] == [
        f"sha256 {'c' * 12}…",
        "<b>",
        "artefact",
        "declared",
    ]
    assert html.endswith(
        f"<p>The identity of the plain run <code>{'a' * 12}…</code>, "
        f"of the deployment <code>{'b' * 12}…</code>.</p>"
    )


def test_a_run_without_records_says_so() -> None:
    """A run in which no deployment was recorded shows no table, and how to make one."""
    html = sphinx_figures.figure_named("deployment").render({"records": None})

    assert "made no records of a deployment" in html


def test_an_unknown_figure_is_refused(tmp_path: Path) -> None:
    """A page that asks for a figure that is not there is told which are."""
    with pytest.raises(LabError, match=r"figure must be one of another_family, .*; got 'plot'"):
        sphinx_figures.render("plot", stage=tmp_path)


def test_the_page_on_another_stack_says_what_was_measured() -> None:
    """The stored runs hold what the page says: plain files round, 8 and 16 bits stay."""
    stacks = {row["knob"]: row for row in stored_section(LLAMACPP)["rows"]}
    plain, flash, published, both = (
        stacks[f"another_stack_{name}"]
        for name in ("plain_False", "plain_True", "published_False", "published_True")
    )
    different = [row["verdict"] for row in (flash, published, both)]

    assert plain["verdict"] == "preserving"
    assert different == ["different artefact"] * 3
    assert flash["ratio"] < 2 < published["ratio"]
    assert both["ratio"] / published["ratio"] == pytest.approx(1, abs=0.25)


def test_the_page_on_another_family_says_what_was_measured() -> None:
    """No reordering option is called a change on Gemma 3 though outputs move; the others are."""
    rows = {row["knob"]: row for row in stored_section(GEMMA)["rows"]}
    runtime = [row for row in rows.values() if row["kind"] != "model"]
    changed = {row["verdict"] for row in rows.values() if row["kind"] == "model"}

    assert {row["verdict"] for row in runtime} == {"preserving", "undetermined"}
    assert sum(row["identical"] < row["runs"] for row in runtime) > len(runtime) / 2
    assert changed == {"different artefact", "not applicable"}
    assert "does not apply" in next(
        row["sentence"] for row in rows.values() if row["verdict"] == "not applicable"
    )
