"""The rooms of the package from top to bottom, as the import contract states them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import labkit
from labkit.errors import LabError
from labkit.files import find_root

ORIGINS = ()
_CODE, _AS_CODE = re.compile("`([^`]+)`"), r"<code>\1</code>"


def render(results: Mapping[str, Any]) -> str:
    """Return the rooms as a list of floors; it is the same for every run."""
    floors, plain = read_contract((find_root() / "pyproject.toml").read_text(encoding="utf-8"))
    drawn = "".join(
        f"<li><ul>{''.join(_room(name, is_plain=name in plain) for name in floor)}</ul></li>"
        for floor in floors
    )
    count = sum(map(len, floors))
    return (
        f'<ol class="labkit-rooms" aria-label="{count} rooms on {len(floors)} floors, top first">'
        f"{drawn}</ol>"
    )


def read_contract(pyproject: str) -> tuple[list[list[str]], frozenset[str]]:
    """Return the rooms floor by floor, and those that need the standard library alone.

    Args:
        pyproject: The text of pyproject.toml.

    Raises:
        LabError: If it has not the two contracts.
    """
    contracts = (
        tomllib.loads(pyproject).get("tool", {}).get("importlinter", {}).get("contracts", [])
    )
    by_type = {contract["type"]: contract for contract in contracts}
    if not {"layers", "forbidden"} <= set(by_type):
        raise LabError(
            "pyproject.toml must have a contract of type 'layers' and one of type 'forbidden' for "
            f"import-linter; got {sorted(by_type)}."
        )
    floors = [re.split(r" *[:|] *", floor) for floor in by_type["layers"]["layers"]]
    plain = by_type["forbidden"]["source_modules"]
    return floors, frozenset(name.removeprefix("labkit.") for name in plain)


def purpose_of(room: str) -> str:
    """Return the first sentence of a room's docstring.

    Raises:
        LabError: If there is no such room, or it does not say what it is.
    """
    folder = Path(labkit.__path__[0])
    path = folder / room / "__init__.py" if (folder / room).is_dir() else folder / f"{room}.py"
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) if path.is_file() else None
    if not text:
        raise LabError(f"each room of labkit must say what it is in its docstring; got {room!r}.")
    return text.splitlines()[0]


def _room(name: str, *, is_plain: bool) -> str:
    note = "<small>standard library only</small>" if is_plain else ""
    return (
        f'<li data-plain="{"yes" if is_plain else "no"}"><code>{escape(name)}</code> '
        f"{_CODE.sub(_AS_CODE, escape(purpose_of(name)))} {note}</li>"
    )
