"""The examples of CONTRIBUTING.md, the README and the notebook template do what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import notebook_rules
import pytest
from support import ROOT

from labkit.chapter import check_parameters
from labkit.figures.rooms import read_contract

TEMPLATE = ROOT / "book/examples/notebook_template.ipynb"
_NAMED_FILE = re.compile(r"```python\n# (\S+\.py)\n(.*?)```", re.DOTALL)
_TREE = re.compile(r"## The tree\n\n```\n(.*?)```", re.DOTALL)


def example_files() -> dict[str, str]:
    """Return the files that CONTRIBUTING.md writes out, by their paths."""
    return dict(_NAMED_FILE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))


def test_there_is_a_worked_knob_and_a_worked_probe() -> None:
    """CONTRIBUTING.md writes out a knob and a probe, each with its test."""
    folders = [str(Path(name).parent) for name in example_files()]

    assert folders == ["labkit/knobs", "tests", "labkit/probes", "tests"]


@pytest.mark.parametrize("name", example_files())
def test_an_example_is_written_as_the_lab_is(tmp_path: Path, name: str) -> None:
    """An example passes the lint and the formatter, as a new file of the lab must."""
    path = tmp_path / Path(name).name
    path.write_text(example_files()[name], encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--config", str(ROOT / "pyproject.toml"), str(path)]
    done = [
        subprocess.run([*ruff, *command, *settings], capture_output=True, text=True, check=False)
        for command in (["check"], ["format", "--diff"])
    ]

    assert [d.returncode for d in done] == [0, 0], done[0].stdout + done[1].stdout


@pytest.mark.slow
def test_the_examples_are_found_and_pass_their_tests(tmp_path: Path) -> None:
    """Put into a copy of the lab, the files register by themselves and their tests pass."""
    shutil.copytree(ROOT / "labkit", tmp_path / "labkit")
    for name in ("pyproject.toml", "data", "notebooks"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "tests").mkdir()
    for path in (ROOT / "tests").glob("*.py"):
        if not path.name.startswith("test_"):
            shutil.copy(path, tmp_path / "tests")
    for name, text in example_files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert re.search(r"\b3 passed", done.stdout), done.stdout + done.stderr


@pytest.mark.parametrize("rule", notebook_rules.RULES, ids=lambda rule: rule.__name__)
def test_the_template_keeps_the_rules_of_notebooks(
    rule: Callable[[notebook_rules.Notebook], list[str]],
) -> None:
    """Whoever copies the template begins with a notebook that keeps every rule."""
    assert rule(json.loads(TEMPLATE.read_text(encoding="utf-8"))) == []


def test_the_template_takes_what_the_chapter_passes() -> None:
    """The template has the two parameters that `labkit chapter` hands to each notebook."""
    check_parameters(TEMPLATE, {"profile": "quick", "run_dir": ""})


def test_the_template_is_no_section() -> None:
    """The template lies where the chapter does not look for notebooks."""
    assert not TEMPLATE.is_relative_to(ROOT / "notebooks")


@pytest.mark.slow
def test_the_template_runs(tmp_path: Path) -> None:
    """The template runs from its first cell to its last and stores an output."""
    import papermill

    papermill.execute_notebook(str(TEMPLATE), str(tmp_path / "done.ipynb"), progress_bar=False)
    done = json.loads((tmp_path / "done.ipynb").read_text(encoding="utf-8"))

    assert notebook_rules.check_executed(done) == []


def tree() -> dict[str, str]:
    """Return the README's tree: each path with its comment."""
    found = _TREE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found
    paths, folder = {}, ""
    for line in found[1].splitlines():
        name, _, comment = line.strip().partition("  ")
        folder = name if not line.startswith(" ") else folder
        paths[name if not line.startswith(" ") else folder + name] = comment.strip()
    return paths


def test_the_readmes_tree_is_the_labs() -> None:
    """Each path of the tree is there and has a comment, and no room of the package is left out."""
    floors, _ = read_contract((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    rooms = {room for floor in floors for room in floor}
    listed = {
        Path(path).stem for path in tree() if path.startswith("labkit/") and path != "labkit/"
    }

    assert listed == rooms
    assert [path for path in tree() if not (ROOT / path).exists()] == []
    assert [path for path, comment in tree().items() if not comment] == []
