"""What a notebook of the lab must be, as functions that return what is wrong."""

from __future__ import annotations

import ast
import re
from typing import Any

Notebook = dict[str, Any]

MAX_CELL_LINES = 15
WORDS_PER_CODE_LINE = 6
TYPES = ("str", "int", "float", "bool")
_MACHINE = re.compile(r"/(?:home|root|work|tmp|Users|var|opt)/[\w.-]")


def source_of(cell: dict[str, Any]) -> str:
    """Return a cell's source as one text."""
    return "".join(cell["source"])


def code_cells(notebook: Notebook) -> list[tuple[int, dict[str, Any]]]:
    """Return the code cells with their numbers."""
    numbered = enumerate(notebook["cells"], start=1)
    return [(number, cell) for number, cell in numbered if cell["cell_type"] == "code"]


def tagged(notebook: Notebook, tag: str) -> list[dict[str, Any]]:
    """Return the code cells with a tag."""
    return [c for _, c in code_cells(notebook) if tag in c.get("metadata", {}).get("tags", [])]


def check_parameters(notebook: Notebook) -> list[str]:
    """There is one parameters cell, of typed literals with a comment each."""
    cells = tagged(notebook, "parameters")
    if len(cells) != 1:
        return [f"{len(cells)} cells are tagged `parameters`"]
    source = source_of(cells[0])
    lines = source.splitlines()
    faults = []
    for node in ast.parse(source).body:
        line = lines[(node.end_lineno or node.lineno) - 1]
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.value, ast.Constant):
            faults.append(f"not a typed literal: {line}")
        elif ast.unparse(node.annotation) not in TYPES:
            faults.append(f"not one of the types {', '.join(TYPES)}: {line}")
        elif "  # " not in line:
            faults.append(f"no comment: {line}")
    return faults


def check_no_helpers(notebook: Notebook) -> list[str]:
    """No cell defines a function or a class."""
    faults = []
    helpers = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for number, cell in code_cells(notebook):
        tree = ast.parse(source_of(cell))
        faults += [
            f"cell {number} defines a helper" for n in ast.walk(tree) if isinstance(n, helpers)
        ]
    return faults


def check_length(notebook: Notebook) -> list[str]:
    """No code cell is too long to be read at once."""
    return [
        f"cell {number} has {lines} lines"
        for number, cell in code_cells(notebook)
        if (lines := len(source_of(cell).splitlines())) > MAX_CELL_LINES
    ]


def check_prose(notebook: Notebook) -> list[str]:
    """There are words enough around the code."""
    words = sum(
        len(source_of(cell).split())
        for cell in notebook["cells"]
        if cell["cell_type"] == "markdown"
    )
    lines = sum(
        bool(line.strip())
        for _, cell in code_cells(notebook)
        for line in source_of(cell).splitlines()
    )
    enough = words >= WORDS_PER_CODE_LINE * lines
    return [] if enough else [f"{words} words for {lines} lines of code"]


def check_overview(notebook: Notebook) -> list[str]:
    """The notebook opens with its title, and has sections."""
    first = notebook["cells"][0]
    faults = []
    if first["cell_type"] != "markdown" or not source_of(first).startswith("# "):
        faults.append("the first cell is not the title")
    headings = re.findall(r"^## ", "\n".join(map(source_of, notebook["cells"])), re.MULTILINE)
    return faults if len(headings) >= 2 else [*faults, f"{len(headings)} sections"]


def check_executed(notebook: Notebook) -> list[str]:
    """Every code cell ran, in order, and none failed; some showed something."""
    cells = code_cells(notebook)
    counts = [cell["execution_count"] for _, cell in cells]
    faults = []
    if None in counts or counts != sorted(counts):
        faults.append(f"execution counts are {counts}")
    outputs = [output for _, cell in cells for output in cell["outputs"]]
    faults += [f"stored error {o['ename']}" for o in outputs if o["output_type"] == "error"]
    return faults if outputs else [*faults, "no stored output"]


def check_no_machine(notebook: Notebook) -> list[str]:
    """No text names a folder of one machine."""
    faults = []
    for number, cell in enumerate(notebook["cells"], start=1):
        text = f"{source_of(cell)} {cell.get('outputs', '')} {cell.get('metadata', '')}"
        if match := _MACHINE.search(text):
            faults.append(f"cell {number} names {match[0]}…")
    metadata = str(notebook.get("metadata", ""))
    return [*faults, "the metadata do"] if _MACHINE.search(metadata) else faults


RULES = (
    check_parameters,
    check_no_helpers,
    check_length,
    check_prose,
    check_overview,
    check_executed,
    check_no_machine,
)
