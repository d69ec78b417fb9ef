"""`labkit fingerprints`: read config files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.cli._common import (
    Subparsers,
    add_command,
    add_json_option,
    print_json,
    print_table,
    printable,
    progress_bar,
)
from labkit.errors import EXIT_DOES_NOT_HOLD, EXIT_HOLDS, RequestError

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

_PROOF_COLUMNS = {
    "model_type": "architecture",
    "status": "plan and cache",
    "live_total": "cache, B",
    "planned_total": "plan, B",
    "long_status": "past the window",
    "why": "why",
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
    parser.add_argument(
        "--prove",
        action="store_true",
        help="build a tiny twin of every architecture, run it, and compare its cache with the plan",
    )
    parser.add_argument("--out", metavar="FILE", help="write the proof as JSON")
    add_json_option(parser)
    parser.set_defaults(execute=execute)


def _shown(spec: ModelSpec) -> dict[str, object]:
    """Return a spec's row; a window that the file switches off is not shown as one."""
    row: dict[str, object] = dict(spec.summary_row())
    return row | {"window_size": "off"} if spec.sliding_window.scope_from_file == "off" else row


def execute(args: argparse.Namespace) -> int:
    """Print the table, or each spec as JSON; or prove the cache plans."""
    if args.prove or args.out:
        return _prove(args)
    from labkit.experiments.fingerprints import read_specs
    from labkit.files import data_file

    specs = read_specs(args.paths or [data_file("configs")])
    if args.json:
        print_json([spec.to_json() for spec in specs])
    else:
        print_table([_shown(spec) for spec in specs], _COLUMNS)
        for spec in specs:
            for note in spec.notes:
                print(printable(f"{spec.name}: {note}"))
            if spec.unread:
                print(printable(f"{spec.name}: not read: {', '.join(spec.unread)}"))
    return EXIT_HOLDS


def _prove(args: argparse.Namespace) -> int:
    """Compare plans with live caches; 1 if one differs. Paths are names of architectures."""
    from labkit.experiments.allocation import prove_all, write_proof

    if not args.prove:
        raise RequestError("--out keeps a proof; add --prove.")
    with progress_bar("prove") as progress:
        proof = prove_all(args.paths, progress=progress)
    if args.out:
        write_proof(proof, Path(args.out))
    if args.json:
        print_json(proof)
    else:
        print_table([row for row in proof["rows"] if row["status"] != "refused"], _PROOF_COLUMNS)
        print(", ".join(f"{name} {count}" for name, count in proof["summary"].items()))
    return EXIT_DOES_NOT_HOLD if proof["summary"]["differs"] else EXIT_HOLDS
