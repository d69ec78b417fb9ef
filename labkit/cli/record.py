"""`labkit record`: show, check, compare, name and export the records of runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.cli._common import (
    Subparsers,
    add_command,
    add_json_option,
    print_json,
    print_table,
    printable,
)
from labkit.errors import EXIT_BAD_INPUT, EXIT_DOES_NOT_HOLD, EXIT_HOLDS, RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labkit.audit import Finding
    from labkit.record import Difference, Measured, RunRecord

_SHOWN = 60  # characters of a value in a table


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand with its own."""
    parser = add_command(
        subparsers,
        "record",
        summary="Show, check, compare, name or export the record of a run.",
        example="labkit record diff results/published-cpu results/published-quick",
    )
    own = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add(
        own,
        "show",
        summary="Print every field of a record with its stages.",
        execute=_show,
    )
    _add(
        own,
        "validate",
        summary="Check a record, and that its files are those it vouches for.",
        execute=_validate,
        status="exit status: 0 if the files are its own, 1 if one is not, 2 if it is no record",
    )
    identity = _add(
        own,
        "identity",
        summary="Print the digest over the fields that are not function-preserving.",
        execute=_identity,
        status="exit status: 0 if the identity is whole, 2 if fields of it were not recorded",
    )
    _add_verdicts(identity)
    diff = _add(
        own,
        "diff",
        summary="Say of each field in which two records differ what the difference changes.",
        execute=_diff,
        runs=("first", "second"),
        status="exit status: 0 for the same artefact, 1 for another, 2 if neither was shown",
    )
    _add_verdicts(diff)
    _add(
        own,
        "preflight",
        summary="List what a run's folder lacks before its numbers can be read.",
        execute=_preflight,
        status="exit status: 0 if nothing is amiss, 1 if something is missing or does not hold, "
        "2 if something could not be answered",
    )
    _add(
        own,
        "gates",
        summary="Ask the gates of a run that failed or looks wrong, one after another.",
        execute=_gates,
        status="exit status: 0 if all hold, 1 if one does not, 2 if one could not be answered",
    )
    route = _add(
        own,
        "route",
        summary="Compare the fields of two records that a symptom points to first.",
        execute=_route,
        runs=("first", "second"),
        more="--symptom 'greedy output differs'",
    )
    route.add_argument("--symptom", required=True, metavar="WORDS", help="what was noticed")
    _add_verdicts(route)
    export = _add(
        own,
        "export",
        summary="Write a run as a Process Run Crate, or print it as an OpenTelemetry span.",
        execute=_export,
        more="--as opentelemetry",
    )
    export.add_argument("--as", dest="form", required=True, choices=("ro-crate", "opentelemetry"))
    export.add_argument(
        "--out", type=Path, metavar="FOLDER", help="the crate's folder, still empty"
    )
    _add_verdicts(export)


def _add(
    subparsers: Subparsers,
    name: str,
    *,
    summary: str,
    execute: Any,
    runs: tuple[str, ...] = ("run",),
    more: str = "",
    status: str = "",
) -> argparse.ArgumentParser:
    folders = " ".join(["results/published-cpu", "results/published-quick"][: len(runs)])
    example = f"labkit record {name} {folders} {more}".rstrip()
    parser = add_command(subparsers, name, summary=summary, example=example)
    parser.epilog = f"{parser.epilog}\n{status}".rstrip()
    for run in runs:
        parser.add_argument(run, type=Path, metavar="RUN", help="a run's folder, or a record.json")
    add_json_option(parser)
    parser.set_defaults(execute=execute)
    return parser


def _add_verdicts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--verdicts",
        type=Path,
        metavar="RESULTS",
        help="results with a preservation section (default: the published cpu run's)",
    )


def _measured(chosen: Path | None) -> Measured:
    """Return the verdicts chosen, else the published ones, else none, which the output says."""
    from labkit.files import find_root
    from labkit.record import NOTHING_MEASURED, read_measured

    if chosen is not None:
        return read_measured(chosen)
    published = find_root() / "results" / "published-cpu" / "results.json"
    return read_measured(published) if published.is_file() else NOTHING_MEASURED


def _read(path: Path) -> RunRecord:
    from labkit.record import read_record

    return read_record(path)


def _show(args: argparse.Namespace) -> int:
    record = _read(args.run)
    if args.json:
        print_json(record.to_json())
        return EXIT_HOLDS
    head = f"{record.id}: {record.status}, {record.command}, from {record.started_utc}"
    print(printable(head))
    if record.failure:
        print(printable(f"failure: {record.failure['type']}: {record.failure['message']}"))
    rows = [
        {"field": name, **{s: _short(getattr(stated, s)) for s in _STAGES}}
        for name, stated in record.all_stated()
    ]
    print_table(rows, {"field": "field", **{stage: stage for stage in _STAGES}})
    print(f"changed on the way: {', '.join(c.field for c in record.changes) or 'nothing seen'}")
    for item in record.artefacts:
        print(f"artefact {printable(item.path)}: {item.size_bytes:,} bytes, sha256 {item.sha256}")
    return EXIT_HOLDS


_STAGES = ("requested", "resolved", "observed")


def _validate(args: argparse.Namespace) -> int:
    from labkit.record import check_artefacts, folder_of

    record = _read(args.run)
    faults = check_artefacts(record, folder_of(args.run))
    if args.json:
        print_json({"id": record.id, "artefacts": len(record.artefacts), "faults": faults})
    else:
        valid = f"a valid record of {len(record.artefacts)} files"
        invalid = "its files are not all those that the record vouches for"
        print(printable(f"{record.id}: {invalid if faults else valid}"))
        for fault in faults:
            print(printable(fault))
    return EXIT_DOES_NOT_HOLD if faults else EXIT_HOLDS


def _identity(args: argparse.Namespace) -> int:
    from labkit.record import identify

    found = identify(_read(args.run), _measured(args.verdicts))
    if args.json:
        print_json(found.to_json())
    else:
        print(found.sha256)
        rows = [{"field": name, "value": _short(value)} for name, value in found.fields.items()]
        print_table(rows, {"field": "field", "value": "value in force"})
        print(f"verdicts: {found.verdicts}")
        if found.missing:
            print(f"not whole, as these were not recorded: {', '.join(found.missing)}")
    return EXIT_BAD_INPUT if found.missing else EXIT_HOLDS


def _diff(args: argparse.Namespace) -> int:
    from labkit.record import ANOTHER_ARTEFACT, SAME_ARTEFACT, diff_records

    found = diff_records(_read(args.first), _read(args.second), _measured(args.verdicts))
    if args.json:
        print_json(found.to_json())
    else:
        print(found.outcome)
        if any(status != "finished" for status in found.statuses):
            print("first run: {}; second run: {}".format(*found.statuses))
        _print_differences(found.differences, otherwise="no field differs")
        print(f"not recorded by either: {', '.join(found.not_compared) or 'nothing'}")
        print(f"verdicts: {found.verdicts}")
    known = {SAME_ARTEFACT: EXIT_HOLDS, ANOTHER_ARTEFACT: EXIT_DOES_NOT_HOLD}
    return known.get(found.outcome, EXIT_BAD_INPUT)


def _preflight(args: argparse.Namespace) -> int:
    from labkit.audit import preflight

    return _report(preflight(args.run), as_json=args.json)


def _gates(args: argparse.Namespace) -> int:
    from labkit.audit import pass_gates

    return _report(pass_gates(args.run), as_json=args.json)


def _report(findings: Sequence[Finding], *, as_json: bool) -> int:
    if as_json:
        print_json([item.to_json() for item in findings])
    else:
        print_table(
            [item.to_json() for item in findings],
            {"name": "check", "stage": "stage", "answer": "answer", "found": "found"},
        )
    answers = {item.answer for item in findings}
    if answers & {"does not hold", "missing"}:
        return EXIT_DOES_NOT_HOLD
    return EXIT_BAD_INPUT if "not evaluated" in answers else EXIT_HOLDS


def _route(args: argparse.Namespace) -> int:
    from labkit.audit import route

    found = route(_read(args.first), _read(args.second), args.symptom, _measured(args.verdicts))
    if args.json:
        print_json(found.to_json())
        return EXIT_HOLDS
    print(f"{found.symptom}: a difference is where to look first, and no cause yet")
    _print_differences(found.first, otherwise="nothing differs where one looks first")
    print(f"alike: {', '.join(found.alike) or 'nothing'}")
    print(f"not known, as not recorded by both: {', '.join(found.unknown) or 'nothing'}")
    print(f"not in any record, compare by hand: {'; '.join(found.elsewhere)}")
    _print_differences(found.then, otherwise="nothing differs elsewhere")
    return EXIT_HOLDS


def _print_differences(differences: Sequence[Difference], *, otherwise: str) -> None:
    rows = [
        {
            "effect": item.effect,
            "field": item.field,
            "first": _short(item.left),
            "second": _short(item.right),
            "reason": item.reason,
        }
        for item in differences
    ]
    if rows:
        print_table(rows, {key: key for key in rows[0]})
    else:
        print(otherwise)


def _export(args: argparse.Namespace) -> int:
    from labkit import exports

    # The option that the other form would use, and this one would ignore.
    other = "out" if args.form == "opentelemetry" else "verdicts"
    if (given := getattr(args, other)) is not None:
        raise RunError(
            f"--{other} must stand with a form that uses it; got --{other}={given} with "
            f"--as {args.form}. Leave it out, or name the other form."
        )
    if args.form == "opentelemetry":
        print_json(exports.as_span(_read(args.run), _measured(args.verdicts)))
        return EXIT_HOLDS
    if args.out is None:
        raise RunError("A crate needs a folder: got --out=None. Name an empty one with --out.")
    written = exports.write_crate(args.run, args.out)
    print_json({"crate": str(written)}) if args.json else print(written)
    return EXIT_HOLDS


def _short(value: object) -> str | None:
    """Return a value as one short text; what was not recorded stays None."""
    if value is None:
        return None
    from labkit.files import canonical_json

    text = value if isinstance(value, str) else canonical_json(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
