"""Notebooks as files: what an executed one may keep, so that equal runs are equal bytes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from labkit.errors import RunError
from labkit.files import shown, write_atomically

_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# What papermill and Jupyter add about one execution on one machine.
_OF_ONE_RUN = ("papermill", "execution", "ExecuteTime")
_ADDED_TAGS = {"injected-parameters", "papermill-error-cell-tag"}


def read_notebook(path: Path) -> dict[str, Any]:
    """Return a notebook's JSON.

    Raises:
        RunError: If it is missing or not a notebook.
    """
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"A notebook must be readable JSON; got path={shown(path)}: {error}. "
            "Restore it with `git checkout`."
        ) from error
    if not isinstance(notebook, dict) or "cells" not in notebook:
        raise RunError(f"A notebook must hold cells; got path={shown(path)} without any.")
    return notebook


def write_notebook(path: Path, notebook: dict[str, Any]) -> None:
    """Replace a notebook's file, in the layout that Jupyter writes."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    write_atomically(path, text)


def normalise(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook without what names one machine or one moment.

    Paths, times and versions leave the metadata, the kernel gets its common name, and each
    cell's id derives from its place and its source.
    """
    cells = [_normalise_cell(cell, number=number) for number, cell in enumerate(notebook["cells"])]
    metadata = {"kernelspec": dict(_KERNEL), "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _normalise_cell(cell: dict[str, Any], *, number: int) -> dict[str, Any]:
    source = _lines(cell.get("source", ""))
    kept = {key: value for key, value in cell.get("metadata", {}).items() if key not in _OF_ONE_RUN}
    # papermill marks every cell it ran with an empty list of tags.
    if not kept.get("tags", True):
        del kept["tags"]
    identity = hashlib.sha256(f"{number}\n{''.join(source)}".encode()).hexdigest()[:8]
    return {**cell, "source": source, "metadata": kept, "id": f"cell-{identity}"}


def _lines(source: str | list[str]) -> list[str]:
    """Return a cell's source as the list of lines that Jupyter stores."""
    text = source if isinstance(source, str) else "".join(source)
    return text.splitlines(keepends=True)


def tagged_cells(notebook: dict[str, Any], tag: str) -> list[dict[str, Any]]:
    """Return the code cells that carry a tag."""
    return [
        cell
        for cell in notebook["cells"]
        if cell["cell_type"] == "code" and tag in cell.get("metadata", {}).get("tags", [])
    ]


def describe_error(notebook: dict[str, Any]) -> str:
    """Return where and how a partly run notebook failed, counting the source's own cells."""
    cells = [cell for cell in notebook["cells"] if not _is_added(cell)]
    for number, cell in enumerate(cells, start=1):
        for output in cell.get("outputs", []):
            if output.get("output_type") == "error":
                return f"cell {number}: {output['ename']}: {output['evalue']}"
    return "no cell reports an error; the kernel died"


def _is_added(cell: dict[str, Any]) -> bool:
    """Return whether papermill put the cell in: parameters, or a banner over a failure."""
    return bool(_ADDED_TAGS & set(cell.get("metadata", {}).get("tags", [])))
