"""This run compared with yours: which rows changed, and which differing fields explain it."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sections
from hypothesis import given
from hypothesis import strategies as st
from test_book import finish_at, make_run

from labkit.book.comparing import compare_runs, describe_comparison
from labkit.comparison import EXPLAINING, compare_sections, explanations
from labkit.record import Difference, fields_of_layers
from labkit.results import SECTIONS, empty_results, origins_of_sections


def results() -> dict[str, Any]:
    """Make results with a preservation section."""
    return {**empty_results(), "preservation": sections.preservation()}


def differing(*fields: str) -> list[Difference]:
    """Make differences in fields of a record, of the effect that each is declared to have."""
    known = fields_of_layers()
    return [
        Difference(field=name, left="a", right="b", effect=known[name].effect, reason="made up")
        for name in fields
    ]


def preservation_change(change: dict[str, Any], *fields: str) -> Any:
    """Compare two runs of which the second has a changed first row."""
    other = copy.deepcopy(results())
    other["preservation"]["rows"][0] |= change
    found = compare_sections(results(), other, differences=differing(*fields))
    return {item.section: item for item in found}["preservation"]


@pytest.mark.parametrize(
    ("change", "changed", "moved"),
    [
        pytest.param({}, 0, 0, id="nothing"),
        pytest.param({"verdict": "undetermined"}, 1, 0, id="verdict"),
        pytest.param({"identical": 3}, 1, 0, id="count"),
        pytest.param({"ratio": 0.98765}, 0, 1, id="decimals"),
        pytest.param({"ratio": None}, 1, 0, id="no-longer-measured"),
        pytest.param({"sentence": "Prefill in 9.5 pieces."}, 1, 0, id="words"),
        pytest.param({"elapsed_s": 9.5}, 0, 0, id="time"),
        pytest.param({"evidence": {"a": 1}}, 0, 0, id="evidence"),
    ],
)
def test_what_came_out_otherwise_is_told_from_what_moved(
    change: dict[str, Any], changed: int, moved: int
) -> None:
    """Words and counts are results, decimals move, and times and evidence are no results."""
    found = preservation_change(change)

    assert (len(found.changed), found.moved) == (changed, moved)


def test_a_sentence_whose_numbers_alone_differ_has_moved() -> None:
    """A sentence with other decimals is no other finding."""
    left, right = results(), results()
    left["preservation"]["rows"][0]["sentence"] = "Preserving: growth 1.02, 3 of 12."
    right["preservation"]["rows"][0]["sentence"] = "Preserving: growth 0.9e-3, 4 of 12."
    found = {c.section: c for c in compare_sections(left, right, differences=[])}["preservation"]

    assert (found.changed, found.moved) == ((), 1)


def test_a_row_of_one_run_only_is_a_change() -> None:
    """An option that only one run has is named, with the side on which it is missing."""
    other = results()
    gone = other["preservation"]["rows"].pop(2)
    (found,) = [
        c for c in compare_sections(results(), other, differences=[]) if c.section == "preservation"
    ]

    assert [(row.name, row.fields) for row in found.changed] == [
        (gone["knob"], (("the row", "there", "missing"),))
    ]


@pytest.mark.parametrize(
    ("fields", "explained"),
    [
        pytest.param((), {}, id="nothing-differs"),
        pytest.param(("substrate.cores",), {}, id="place-explains-nothing"),
        pytest.param(
            ("substrate.torch", "identity.prompts"),
            {"question": ("identity.prompts",), "arithmetic": ("substrate.torch",)},
            id="the-gravest-first",
        ),
        pytest.param(
            ("identity.checkpoint",), {"artefact": ("identity.checkpoint",)}, id="other-weights"
        ),
    ],
)
def test_fields_explain_by_their_effect(
    fields: tuple[str, ...], explained: dict[str, tuple[str, ...]]
) -> None:
    """Of the differing fields those explain a change that can reach a result, gravest first."""
    found = preservation_change({"identical": 3}, *fields)

    assert found.explained_by == explained
    assert list(found.explained_by) == list(explained)


def test_a_section_that_needs_no_model_is_not_explained_by_one() -> None:
    """Fingerprints are read from files, so other weights or another torch explain none of them."""
    differences = differing("identity.checkpoint", "substrate.torch", "evaluation.harness")

    assert explanations("fingerprints", differences) == {"question": ("evaluation.harness",)}


def test_each_section_names_parts_of_the_record() -> None:
    """What a section is made from are layers or fields that a record has."""
    known = list(fields_of_layers())
    named = {part for parts in origins_of_sections().values() for part in parts}

    assert set(origins_of_sections()) == set(SECTIONS)
    assert [part for part in named if not any(name.startswith(part) for name in known)] == []


@given(
    st.lists(st.sampled_from(sorted(fields_of_layers())), unique=True), st.sampled_from(SECTIONS)
)
def test_an_explanation_is_a_field_that_differs(fields: list[str], section: str) -> None:
    """Whatever differs, each explanation is one of those fields, under the effect it has."""
    differences = differing(*fields)
    found = explanations(section, differences)
    effects = {d.field: d.effect for d in differences}

    assert set(found) <= set(EXPLAINING)
    assert all(effects[name] == effect for effect, names in found.items() for name in names)


def test_without_a_run_of_ones_own_the_page_says_how_to_make_one(tmp_path: Path) -> None:
    """Beside the published run alone, the page names the commands."""
    page = describe_comparison(make_run(tmp_path, "published-cpu"), root=tmp_path)

    assert "There is no run of your own yet" in page
    assert "make chapter" in page


def own_run(tmp_path: Path) -> Path:
    """Make the published run, and one of the reader's own with another verdict and torch."""
    published = make_run(tmp_path, "published-cpu")
    own = tmp_path / "results" / "mine"
    shutil.copytree(published, own)
    finish_at(own, "2026-02-02T00:00:00Z")
    for folder, verdict in ((published, "preserving"), (own, "undetermined")):
        file = folder / "results.json"
        stored = json.loads(file.read_text())
        stored["preservation"]["rows"] = [
            {
                "knob": "static_cache",
                "option": "static_cache",
                "params": {},
                "label": "static | cache",
                "kind": "runtime",
                "runs": 3,
                "identical": 3,
                "verdict": verdict,
                "sentence": "Made up.",
            }
        ]
        file.write_text(json.dumps(stored))
    record = own / "record.json"
    stored = json.loads(record.read_text())
    stored["substrate"]["torch"]["observed"] = "0.0.1"
    record.write_text(json.dumps(stored))
    return own


def test_the_page_shows_what_changed_and_why(tmp_path: Path) -> None:
    """From either side, the page has the differing field, the changed row and the explanation."""
    own = own_run(tmp_path)
    published = tmp_path / "results" / "published-cpu"
    pages = {describe_comparison(folder, root=tmp_path) for folder in (published, own)}

    assert len(pages) == 1
    (page,) = pages
    assert "| `substrate.torch` |" in page
    assert "| `static_cache` | verdict: preserving → undetermined |" in page
    assert "**Explained by** `substrate.torch` (another order of arithmetic" in page
    assert "All 0 rows are alike." in page


def test_equal_runs_have_no_changed_row(tmp_path: Path) -> None:
    """A run compared with a copy of itself differs in nothing."""
    folder = make_run(tmp_path, "published-cpu")
    page = compare_runs(folder, folder)

    assert "No field that both recorded differs." in page
    assert "came out otherwise" not in page


def test_runs_that_cannot_be_compared_say_why(tmp_path: Path) -> None:
    """Where the published run cannot be read, the page has the reason in place of a table."""
    own = own_run(tmp_path)
    (tmp_path / "results" / "published-cpu" / "record.json").write_text("{")
    page = describe_comparison(own, root=tmp_path)

    assert "cannot be compared" in page
    assert "A record must be JSON" in page
