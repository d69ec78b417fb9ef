"""Two runs' results, row by row, and which differing fields of their records explain a change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.record import Difference
from labkit.results import SECTIONS, origins_of_sections, row_names

EXPLAINING: Mapping[str, str] = {
    "artefact": "another artefact answers otherwise",
    "question": "another question has another answer",
    "undetermined": "not known whether it changes the artefact",
    "not recorded": "only one record says",
    "arithmetic": "another order of arithmetic moves decimals, and near-ties with them",
}
"""What a difference of each effect does to rows; one of place explains nothing but times."""
_TIMES = re.compile(r"_(?:s|ms|us|utc)$")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A row that came out otherwise.

    Attributes:
        name: The row.
        fields: The fields that differ, each with the left and the right value.
    """

    name: str
    fields: tuple[tuple[str, Any, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionChange:
    """How one section came out in two runs.

    Attributes:
        section: Its name.
        rows: How many rows either has.
        changed: Those of which a word, a count or an outcome differs, or that only one run has.
        moved: How many differ in decimals only.
        explained_by: Fields of the records that differ and can reach this section, by effect.
        lacking: Which run does not have it, or "".
    """

    section: str
    rows: int = 0
    changed: tuple[RowChange, ...] = ()
    moved: int = 0
    explained_by: Mapping[str, tuple[str, ...]]
    lacking: str = ""


def compare_sections(
    left: Mapping[str, Any], right: Mapping[str, Any], *, differences: Sequence[Difference]
) -> list[SectionChange]:
    """Compare two runs' results section by section.

    Args:
        left: Results as `labkit.results.read_results` returns them.
        right: Those of the other run.
        differences: How the two records differ.
    """
    return [
        _compare(name, left[name], right[name], explained_by=explanations(name, differences))
        for name in SECTIONS
    ]


def explanations(section: str, differences: Sequence[Difference]) -> dict[str, tuple[str, ...]]:
    """Return the differing fields that can reach a section, the gravest effect first.

    A section says in its schema what it is made from, as layers or fields of the record.
    """
    origins = origins_of_sections()[section]
    reaching = [d for d in differences if d.field.startswith(tuple(origins))]
    found = {
        effect: tuple(d.field for d in reaching if d.effect == effect) for effect in EXPLAINING
    }
    return {effect: fields for effect, fields in found.items() if fields}


def _compare(
    name: str, left: Any, right: Any, *, explained_by: Mapping[str, tuple[str, ...]]
) -> SectionChange:
    if left is None or right is None:
        both = left is None and right is None
        who = "neither run" if both else "the published run" if left is None else "your run"
        return SectionChange(section=name, explained_by={}, lacking=who)
    rows = [_by_name(section, row_names()[name]) for section in (left, right)]
    names = list(dict.fromkeys([*rows[0], *rows[1]]))
    changed, moved = [], 0
    for row in names:
        fields = _fields_that_differ(rows[0].get(row), rows[1].get(row))
        grave = tuple(item for item in fields if not _only_decimals(*item[1:]))
        if grave:
            changed.append(RowChange(name=row, fields=grave))
        moved += bool(fields) and not grave
    return SectionChange(
        section=name,
        rows=len(names),
        changed=tuple(changed),
        moved=moved,
        explained_by=explained_by,
    )


def _by_name(section: Mapping[str, Any], key: str) -> dict[str, Mapping[str, Any]]:
    return {str(row[key]): row for row in section["rows"]}


def _fields_that_differ(
    left: Mapping[str, Any] | None, right: Mapping[str, Any] | None
) -> list[tuple[str, Any, Any]]:
    if left is None or right is None:
        return [
            (
                "the row",
                "missing" if left is None else "there",
                "missing" if right is None else "there",
            )
        ]
    # Objects are evidence and parameters; what follows from them stands beside them.
    fields = dict.fromkeys([*left, *right])
    return [
        (field, left.get(field), right.get(field))
        for field in fields
        if left.get(field) != right.get(field)
        and not _TIMES.search(field)
        and not isinstance(left.get(field, right.get(field)), Mapping)
    ]


def _only_decimals(left: Any, right: Any) -> bool:
    """Say whether two values differ in nothing but measured numbers."""
    if isinstance(left, str) and isinstance(right, str):
        return _NUMBER.sub("#", left) == _NUMBER.sub("#", right)
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (left, right))
    return numbers and (isinstance(left, float) or isinstance(right, float))
