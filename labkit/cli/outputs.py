"""`labkit outputs`: answer the lab's own questions and freeze what was written."""

from __future__ import annotations

import argparse
from pathlib import Path

from labkit.cli._common import (
    Subparsers,
    add_command,
    add_json_option,
    print_json,
    progress_bar,
    say,
)
from labkit.errors import EXIT_HOLDS


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = add_command(
        subparsers,
        "outputs",
        summary="Answer the lab's own questions with a variant of the model, and keep the outputs.",
        example="labkit outputs float32 int8 --out results/outputs",
    )
    parser.add_argument(
        "variants", nargs="+", metavar="VARIANT", help="float32, batches, bfloat16 or int8"
    )
    parser.add_argument(
        "--out",
        default="results/outputs",
        metavar="FOLDER",
        help="gets a folder a variant (default: results/outputs; the frozen ones: data/outputs)",
    )
    parser.add_argument("--model", default="embedded", metavar="MODEL", help="as elsewhere")
    add_json_option(parser)
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Make each variant's outputs; a killed call goes on where it stood."""
    from labkit.experiments._variants import find_variant

    for name in args.variants:  # before the first is made, and before torch is loaded
        find_variant(name)
    from labkit.experiments.outputs import make_outputs

    made = {}
    for name in args.variants:
        folder = Path(args.out) / name
        with progress_bar(name) as progress:
            made[name] = make_outputs(name, folder, model=args.model, progress=progress)
        say(f"{name}: {folder}, SHA-256 {made[name]}")
    if args.json:
        print_json(made)
    return EXIT_HOLDS
