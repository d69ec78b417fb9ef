"""`labkit fingerprints`: read config files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from labkit.cli._common import Subparsers, add_command, add_json_option, print_json, print_table
from labkit.errors import EXIT_HOLDS

if TYPE_CHECKING:
    from labkit.spec import ModelSpec

_COLUMNS = {
    "name": "model",
    "attention_kind": "attention",
    "num_attention_heads": "heads",
    "num_kv_heads": "kv heads",
    "head_dim": "width",
    "kv_bytes_per_token": "cache B/token",
    "cache_bytes_full_context": "cache B/context",
    "max_position": "positions",
    "position_kind": "kind",
    "window_size": "window",
    "rope_kind": "rope",
}


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = add_command(
        subparsers,
        "fingerprints",
        summary="Read config.json files without loading weights.",
        example="labkit fingerprints path/to/checkpoint --json",
    )
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="a config.json, a checkpoint's folder, or a folder of configs (default: the ten)",
    )
    add_json_option(parser)
    parser.set_defaults(execute=execute)


def _shown(spec: ModelSpec) -> dict[str, object]:
    """Return a spec's row; a window that the file switches off is not shown as one."""
    row: dict[str, object] = dict(spec.summary_row())
    return row | {"window_size": "off"} if spec.sliding_window.scope_from_file == "off" else row


def execute(args: argparse.Namespace) -> int:
    """Print the table, or each spec as JSON."""
    from labkit.experiments.fingerprints import read_specs
    from labkit.files import data_file

    specs = read_specs(args.paths or [data_file("configs")])
    if args.json:
        print_json([spec.to_json() for spec in specs])
    else:
        print_table([_shown(spec) for spec in specs], _COLUMNS)
        for spec in specs:
            for note in spec.notes:
                print(f"{spec.name}: {note}")
    return EXIT_HOLDS
