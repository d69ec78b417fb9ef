"""The matrix file: for each release and probe what was done, drawn from the kept evidence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labkit.errors import ReleaseError, ResultsError
from labkit.experiments._release_environment import LIBRARY, release_order
from labkit.files import dump_json, parse_json_strict, shown, write_atomically
from labkit.schemas import first_fault

MATRIX_VERSION = 1
MATRIX_NAME = "matrix.json"
EVIDENCE_FOLDER = "evidence"
SAID_CHARS = 200  # of the first line; the evidence has all of it

_OF_A_ROW = ("probe", "outcome", "did_it", "substituted")


def build_matrix(
    evidence: Iterable[Mapping[str, Any]], others: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return the matrix of several releases' evidence, old releases first, then other stacks'."""
    kept = sorted(evidence, key=lambda each: release_order(each["release"]))
    asked: dict[str, dict[str, Any]] = {}
    for each in kept:
        for row in each["rows"]:
            asked[row["probe"]] = {key: row[key] for key in ("number", "probe", "asked")}
    order = sorted(
        asked.values(), key=lambda row: (row["number"] is None, row["number"] or 0, row["probe"])
    )
    return {
        "schema_version": MATRIX_VERSION,
        "library": LIBRARY,
        "probes": order,
        "releases": [_column(each) for each in kept],
        "others": [_other_column(each) for each in others],
    }


def _column(evidence: Mapping[str, Any]) -> dict[str, Any]:
    head = {key: value for key, value in evidence.items() if key not in ("schema_version", "rows")}
    return {**head, "rows": [_cell(row) for row in evidence["rows"]]}


def _other_column(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Return another stack's column; questions that only it was asked carry their own words."""
    own = [{"asked": row["asked"], **_cell(row)} for row in evidence["own"]]
    return {**_column(evidence), "own": own}


def _cell(row: Mapping[str, Any]) -> dict[str, Any]:
    first_line = next(iter(row["said"].splitlines()), "")
    trimmed = first_line if len(first_line) <= SAID_CHARS else f"{first_line[: SAID_CHARS - 1]}…"
    cell = {key: row[key] for key in _OF_A_ROW}
    return {**cell, "said": trimmed, "why_not_askable": row["why_not_askable"]}


def evidence_file(folder: Path, release: str, *, library: str = LIBRARY) -> Path:
    """Return where a release's evidence lies."""
    return folder / EVIDENCE_FOLDER / f"{library}-{release}.json"


def write_evidence(folder: Path, evidence: Mapping[str, Any]) -> None:
    """Keep a release's evidence."""
    library = evidence.get("library", LIBRARY)
    file = evidence_file(folder, evidence["release"], library=library)
    write_atomically(file, dump_json(evidence, what=file.name))


def draw_matrix(folder: Path, *, probes_digest: str) -> dict[str, Any]:
    """Write the matrix of what was asked by the same probes, and return it.

    Raises:
        ReleaseError: If no release was; what was asked is kept.
    """
    kept = [e for e in read_all_evidence(folder) if e["probes_digest"] == probes_digest]
    if not kept:
        raise ReleaseError(
            "A matrix must have a release that today's probes were asked of; got none in "
            f"{shown(folder)}, where all answers are kept. "
            "Ask the releases first: `labkit fallbacks --matrix`."
        )
    matrix = build_matrix(kept, read_other_evidence(folder))
    check_matrix(matrix, source=MATRIX_NAME)
    write_atomically(folder / MATRIX_NAME, dump_json(matrix, what=MATRIX_NAME))
    return matrix


def read_all_evidence(folder: Path) -> list[dict[str, Any]]:
    """Return every release's evidence of a folder."""
    files = sorted((folder / EVIDENCE_FOLDER).glob(f"{LIBRARY}-*.json"))
    return [_read(file, what="A release's evidence") for file in files]


def read_other_evidence(folder: Path) -> list[dict[str, Any]]:
    """Return the evidence of other stacks, by the library's name and release."""
    files = sorted((folder / EVIDENCE_FOLDER).glob("*.json"))
    read = (_read(file, what="A stack's evidence") for file in files if LIBRARY not in file.name)
    return sorted(read, key=lambda each: (each["library"], release_order(each["release"])))


def read_matrix(file: Path) -> dict[str, Any]:
    """Read and check a matrix file.

    Raises:
        ResultsError: If it is missing, not JSON, of another version or against the schema, or
            if a release lacks a probe; the text names the place.
    """
    matrix = _read(file, what="A matrix")
    check_matrix(matrix, source=shown(file))
    return matrix


def check_matrix(matrix: Mapping[str, Any], *, source: str) -> None:
    """Refuse what is not a whole matrix of this version, and name the place."""
    if matrix.get("schema_version") != MATRIX_VERSION:
        raise ResultsError(
            f"A matrix must have schema_version={MATRIX_VERSION}; "
            f"got schema_version={matrix.get('schema_version')!r} in {source}. "
            "Make it again with `labkit fallbacks --matrix --again`."
        )
    _check_schema(matrix, source=source)
    known = [row["probe"] for row in matrix["probes"]]
    for column in matrix["releases"]:
        found = [row["probe"] for row in column["rows"]]
        if sorted(found) != sorted(known):
            different = ", ".join(sorted(set(known) ^ set(found))) or "a probe twice"
            raise ResultsError(
                f"Each release must answer the same probes once; got release={column['release']} "
                f"in {source}, which differs at {different}. Ask them all with one release of the "
                f"lab: `labkit fallbacks --matrix --again`."
            )
    for column in matrix.get("others", ()):
        if beyond := sorted({row["probe"] for row in column["rows"]} - set(known)):
            raise ResultsError(
                f"Another stack's shared questions must be the matrix's; got {column['library']} "
                f"{column['release']} in {source} with {', '.join(beyond)}. "
                "Ask it again with `labkit fallbacks --stack llamacpp`."
            )


def _check_schema(matrix: Mapping[str, Any], *, source: str) -> None:
    """Validate against the schema."""
    schema = json.loads(Path(__file__).with_name("releases.schema.json").read_text("utf-8"))
    if fault := first_fault(matrix, schema):
        raise ResultsError(
            f"A matrix must follow its schema; got {source} at {fault}. "
            "Make it again with `labkit fallbacks --matrix --again`."
        )


def _read(file: Path, *, what: str) -> dict[str, Any]:
    try:
        stored = parse_json_strict(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ResultsError(
            f"{what} must exist; got path={shown(file)}. Make it with `labkit fallbacks --matrix`."
        ) from error
    except ValueError as error:
        raise ResultsError(
            f"{what} must be JSON; got path={shown(file)}: {error}. "
            "Remove the file and call `labkit fallbacks --matrix`: only it is asked again."
        ) from error
    if not isinstance(stored, dict):
        raise ResultsError(
            f"{what} must be a JSON object; got {type(stored).__name__} in {shown(file)}. "
            "Remove the file and call `labkit fallbacks --matrix`."
        )
    return stored
