"""`labkit fallbacks`: ask the stack for what it may not do."""

from __future__ import annotations

import argparse

from labkit.cli._common import (
    Subparsers,
    add_command,
    add_json_option,
    add_run_options,
    print_json,
    print_table,
    progress_bar,
)
from labkit.cli._releases import add_release_options, execute_matrix
from labkit.errors import EXIT_HOLDS

_COLUMNS = {
    "number": "no.",
    "probe": "probe",
    "outcome": "outcome",
    "did_it": "did it",
    "substituted": "substituted",
    "source_outcome": "source",
}


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = add_command(
        subparsers,
        "fallbacks",
        summary="Ask the stack for what it may not do, and record what it does.",
        example="labkit fallbacks --probe temperature_without_sampling --json",
    )
    add_run_options(parser, default="quick")
    parser.add_argument(
        "--probe", action="append", dest="probes", metavar="ID", help="one probe; may be repeated"
    )
    add_release_options(parser)
    add_json_option(parser)
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Run the probes and print what each did; what they find is no failure of ours."""
    if args.matrix or args.releases or args.again or args.stack:
        return execute_matrix(args)
    from labkit.experiments import fallbacks

    with progress_bar("fallbacks") as progress:
        section = fallbacks.run(args.profile, args.run, probes=args.probes, progress=progress)
    if args.json:
        print_json(section)
    else:
        print_table([*section["rows"], *section["beyond"]], _COLUMNS)
    return EXIT_HOLDS
