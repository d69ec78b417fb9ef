"""Fixtures that several test files share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
import pytest
from support import MakeNotebook, Python

from labkit.profiles import Profile, load_profile

# A tiny model gains nothing from threads, and on a busy machine they wait for one another.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture
def quick() -> Profile:
    """Return the quick profile."""
    return load_profile("quick")


@pytest.fixture
def python() -> Python:
    """Return a function that runs Python code in a process of its own."""

    def run(code: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, **options
        )

    return run


@pytest.fixture
def make_notebook(tmp_path: Path) -> MakeNotebook:
    """Return a function that writes a notebook with a parameters cell and further cells."""

    def make(
        name: str = "01_topic.ipynb",
        *,
        parameters: str | None = 'profile: str = "quick"  # size\nrun_dir: str = ""  # where',
        cells: Sequence[str] = (),
    ) -> Path:
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        notebook = nbformat.v4.new_notebook(
            metadata={"kernelspec": kernel, "language_info": {"name": "python"}}
        )
        notebook.cells.append(nbformat.v4.new_markdown_cell("# A title"))
        if parameters is not None:
            cell = nbformat.v4.new_code_cell(parameters)
            cell.metadata["tags"] = ["parameters"]
            notebook.cells.append(cell)
        notebook.cells += [nbformat.v4.new_code_cell(source) for source in cells]
        path = tmp_path / "notebooks" / name
        path.parent.mkdir(exist_ok=True)
        nbformat.write(notebook, path)
        return path

    return make


@pytest.fixture
def release_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache folder that is in force, with a chat template to be had."""
    from labkit.experiments import releases

    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    monkeypatch.setattr(releases.models, "fetch", lambda: tmp_path / "model")
    return tmp_path / "cache"
