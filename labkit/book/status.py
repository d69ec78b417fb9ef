"""The page that says of each notebook whether it ran, when and for how long."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labkit import record
from labkit.book.tables import table
from labkit.files import find_root
from labkit.results import NOTEBOOKS

_HEAD = """\
# Which notebooks ran

Papermill runs the notebooks, the book only shows what they stored. *Cells* are the code cells with
an execution number, out of all; *source* says whether the copy was made from the notebook that lies
in the lab now.

"""
_INJECTED = "injected-parameters"


def describe_status(run_dir: Path, run: record.RunRecord | None, results: Mapping[str, Any]) -> str:
    """Return the page on a run's notebooks.

    Args:
        run_dir: The run's folder.
        run: Its record.
        results: Its results.
    """
    rows = [_row(name, run_dir=run_dir, results=results) for name in NOTEBOOKS]
    ended = f"The run ended {run.finished_utc or 'not yet'} (UTC).\n\n" if run else ""
    head = ["Notebook", "State", "Cells", "Source", "Seconds of its experiment"]
    return _HEAD + ended + table(head, rows)


def _row(name: str, *, run_dir: Path, results: Mapping[str, Any]) -> list[object]:
    path = run_dir / "executed" / name
    page = f"[{name}]({name.removesuffix('.ipynb')})"
    section = results.get(name.removesuffix(".ipynb").partition("_")[2]) or {}
    if not path.is_file():
        failed = path.with_suffix(".failed.ipynb").is_file()
        return [page, "failed" if failed else "not run", None, None, section.get("elapsed_s")]
    counts = [cell["execution_count"] for cell in _cells(path) if cell["cell_type"] == "code"]
    ran = sum(count is not None for count in counts)
    state = "ran" if ran == len(counts) else "ran in part"
    source = "older" if is_of_older_source(path) else "this one"
    return [page, state, f"{ran} of {len(counts)}", source, section.get("elapsed_s")]


def is_of_older_source(executed: Path) -> bool:
    """Say whether a notebook was executed from another source than the lab's own copy."""
    own = find_root() / "notebooks" / executed.name
    return _sources(executed) != _sources(own)


def _sources(path: Path) -> list[tuple[str, str]]:
    return [
        (cell["cell_type"], "".join(cell["source"]))
        for cell in _cells(path)
        if _INJECTED not in cell.get("metadata", {}).get("tags", ())
    ]


def _cells(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells
