"""What a page says of the run behind it: numbers that are missing, and where tables come from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support import ROOT

from labkit import origins, sphinx_figures, sphinx_run
from labkit.staged import SHOWN_NAME, STAGE, Shown, read_shown, shown_text

SHOWN = Shown(run="results/mine", lacks=("much",), remedy="labkit chapter --profile quick")
KEY = "fingerprints.configs"
QUOTE = "{glue:text}`../run/01_fingerprints.ipynb::%s:s`"
PAGE = f"# A page\n\nThere are {QUOTE % KEY} of them.\n\n# No title\n"


def filled(text: str, top: Path) -> str:
    """Fill the gaps of a page in the chapter's folder."""
    return sphinx_run.filled(text, docname="book/chapter/page", top=top, shown=SHOWN)


def stage_notebook(top: Path, *keys: str) -> None:
    """Stage a notebook that stores these numbers."""
    outputs = [{"metadata": {"scrapbook": {"name": key}}} for key in keys]
    path = top / STAGE / "01_fingerprints.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": [{"outputs": outputs}]}), encoding="utf-8")


def test_a_number_that_the_run_has_is_left_alone(tmp_path: Path) -> None:
    """A page all of whose numbers are stored is built as it was written."""
    stage_notebook(tmp_path, KEY)

    assert filled(PAGE, tmp_path) == PAGE


@pytest.mark.parametrize("staged", [True, False], ids=["older-notebook", "no-notebook"])
def test_a_number_that_the_run_lacks_is_said_in_its_place(tmp_path: Path, staged: bool) -> None:
    """The gap has words, and a note below the title counts it and gives the command."""
    if staged:
        stage_notebook(tmp_path, "fingerprints.another")
    page = filled(PAGE, tmp_path)
    title, note, *_ = page.split("\n\n")

    assert title == "# A page"
    assert (
        "results/mine: 1 of `01_fingerprints.ipynb`. Call `labkit chapter --profile quick`" in note
    )
    assert "There are *not in this run* of them." in page
    assert page.count(":::{admonition}") == 1


def test_a_number_that_nobody_stores_is_left_for_the_build_to_refuse(tmp_path: Path) -> None:
    """A slip of the page is no gap of the run."""
    slip = f"# A page\n\nOf {QUOTE % 'fingerprints.no_such_number'}.\n"

    assert filled(slip, tmp_path) == slip


def test_what_is_shown_is_read_back(tmp_path: Path) -> None:
    """What was staged is read as it was written, and an empty stage shows no run."""
    (tmp_path / SHOWN_NAME).write_text(shown_text(SHOWN))

    assert read_shown(tmp_path) == SHOWN
    assert read_shown(tmp_path / "nothing").run == "no run"


def test_a_figure_of_a_missing_section_says_how_to_get_it(tmp_path: Path) -> None:
    """A figure whose section the run lacks is a note with the command, and no error."""
    (tmp_path / SHOWN_NAME).write_text(shown_text(SHOWN))
    html = sphinx_figures.render("boundary", stage=tmp_path)

    assert 'class="labkit-lacks"' in html
    assert "the section preservation, which results/mine does not have" in html
    assert "<code>labkit chapter --profile quick</code>" in html


def test_each_figure_names_a_section_and_origins_that_exist() -> None:
    """What a figure says it is made from is a section of results, or a stored file by its key."""
    from labkit.results import SECTIONS

    names = [path.stem for path in (ROOT / "labkit/figures").glob("[a-z]*.py")]
    modules = [sphinx_figures.figure_named(name) for name in names]
    keys = {key for module in modules for key in sphinx_figures.origins_of(module)}

    assert {getattr(module, "SECTION", SECTIONS[0]) for module in modules} <= set(SECTIONS)
    assert keys <= {origins.RUN, *origins.stored_files()}


def test_the_line_below_a_figure_names_the_run_and_leads_to_it() -> None:
    """Id, profile, device, versions, digest, commit and time stand in the line, with the link."""
    origin = origins.origin_of(origins.RUN, stage=ROOT / "results/published-quick")
    html = origins.line_html([origin], link=lambda page, anchor: f"{page}.html#{anchor}")
    run = json.loads((ROOT / "results/published-quick/record.json").read_text(encoding="utf-8"))
    commit = run["evaluation"]["harness"]["observed"]["id"]

    assert f'<a href="{origins.ABOUT}.html#">run {run["id"]}</a>' in html
    for fact in (
        "profile quick",
        run["substrate"]["processor"]["observed"],
        f"torch {run['substrate']['torch']['observed']}",
        f"commit {commit[:12]}",
        run["finished_utc"],
    ):
        assert fact in html
    assert re.search(r"artefact [0-9a-f]{12}\b", html)


def test_a_run_without_a_record_says_so(tmp_path: Path) -> None:
    """Where no record was kept the line names the folder and admits the rest."""
    (tmp_path / SHOWN_NAME).write_text(shown_text(SHOWN))
    origin = origins.origin_of(origins.RUN, stage=tmp_path)

    assert origin.name == "run results/mine"
    assert origin.facts == ("no record of it was kept",)


def test_a_stored_file_beside_a_run_is_named_without_its_facts() -> None:
    """Below a notebook's table the files that it read are links, and their page has the rest."""
    keys = origins.read_by("06_from_text_to_score")
    run = origins.origin_of(origins.RUN, stage=ROOT / "results/published-quick")
    beside = [origins.origin_of(key, stage=ROOT) for key in keys]
    html = origins.line_html([run], link=lambda page, anchor: f"x#{anchor}", beside=beside)

    assert keys == ["outputs-float32", "outputs-int8"]
    assert '<a href="x#outputs-int8">data/outputs/int8/record.json</a></p>' in html
    assert html.count("commit ") == 1


@pytest.mark.parametrize("key", origins.stored_files())
def test_a_stored_file_says_what_it_was_made_with(key: str) -> None:
    """Each stored file is there, names a version and a machine or time, and has its digest."""
    origin = origins.origin_of(key, stage=ROOT)
    facts = " ".join(origin.facts)

    assert origins.stored_files()[key].path.is_file()
    assert re.search(r"(?:transformers|llama-cpp-python) \d", facts)
    assert re.search(r"SHA-256 [0-9a-f]{12}$", facts)
    assert origin.anchor == key
