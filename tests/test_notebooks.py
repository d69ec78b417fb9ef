"""The stored notebooks keep the lab's rules, and each rule is seen to fail."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import notebook_rules
import pytest
from support import ROOT

from labkit import results
from labkit.chapter import check_parameters, normalise

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

GOOD = {
    "metadata": {},
    "cells": [
        {
            "cell_type": "markdown",
            "metadata": {},
            "source": "# Title\n\n## One\n\n## Two\n" + "word " * 40,
        },
        {
            "cell_type": "code",
            "metadata": {"tags": ["parameters"]},
            "execution_count": 1,
            "source": 'profile: str = "quick"  # the size',
            "outputs": [],
        },
        {
            "cell_type": "code",
            "metadata": {},
            "execution_count": 2,
            "source": "profile",
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "quick"}],
        },
    ],
}


def test_each_section_has_its_notebook() -> None:
    """The notebooks are those of the sections of results.json, one each, of the same name."""
    assert [path.name for path in NOTEBOOKS] == list(results.NOTEBOOKS)
    assert results.SECTIONS[:4] == ("fingerprints", "preservation", "fallbacks", "admission")


@pytest.mark.parametrize("rule", notebook_rules.RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_the_rule(
    path: Path, rule: Callable[[notebook_rules.Notebook], list[str]]
) -> None:
    """Each notebook keeps each rule."""
    assert rule(json.loads(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_takes_what_the_chapter_passes(path: Path) -> None:
    """Each notebook takes the profile's name and the run's folder."""
    check_parameters(path, {"profile": "quick", "run_dir": "results/quick"})


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_in_normal_form(path: Path) -> None:
    """Stored notebooks have derived cell ids and no metadata of one machine."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    normal = normalise(stored)

    assert stored["metadata"] == normal["metadata"]
    assert [cell["id"] for cell in stored["cells"]] == [cell["id"] for cell in normal["cells"]]


def test_a_good_notebook_passes_every_rule() -> None:
    """The sample that the next test breaks keeps every rule."""
    assert [rule(GOOD) for rule in notebook_rules.RULES] == [[]] * len(notebook_rules.RULES)


@pytest.mark.parametrize(
    ("rule", "cell", "change"),
    [
        ("check_parameters", 1, {"metadata": {}}),
        ("check_parameters", 2, {"metadata": {"tags": ["parameters"]}}),
        ("check_parameters", 1, {"source": 'profile = "quick"  # untyped'}),
        ("check_parameters", 1, {"source": 'profile: str = "quick"'}),
        ("check_parameters", 1, {"source": "steps: int = 2 * 4  # derived"}),
        ("check_parameters", 1, {"source": "steps: list = None  # no such type"}),
        ("check_no_helpers", 2, {"source": "def helper():\n    pass"}),
        ("check_no_helpers", 2, {"source": "if profile:\n    class Helper:\n        pass"}),
        ("check_length", 2, {"source": "1\n" * 16}),
        ("check_prose", 0, {"source": "# Title\n\n## One\n\n## Two"}),
        ("check_overview", 0, {"source": "Text " * 40}),
        ("check_executed", 2, {"execution_count": None}),
        ("check_executed", 1, {"execution_count": 3}),
        ("check_executed", 2, {"outputs": []}),
        ("check_executed", 2, {"outputs": [{"output_type": "error", "ename": "E"}]}),
        ("check_no_machine", 2, {"source": 'open("/home/someone/x")'}),
        ("check_no_machine", 2, {"outputs": [{"text": "/tmp/ipykernel_1"}]}),
    ],
)
def test_each_rule_can_fail(rule: str, cell: int, change: dict) -> None:
    """Break the good notebook in one place and the rule for it says so."""
    broken = copy.deepcopy(GOOD)
    broken["cells"][cell].update(change)

    assert getattr(notebook_rules, rule)(broken) != []
