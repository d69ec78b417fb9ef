"""`labkit preservation`: measure which options keep the function."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from labkit.cli._common import (
    Subparsers,
    add_command,
    add_json_option,
    add_run_options,
    print_json,
    print_table,
    progress_bar,
)
from labkit.errors import EXIT_DOES_NOT_HOLD, EXIT_HOLDS, KnobError

_COLUMNS = {
    "knob": "option",
    "kind": "kind",
    "runs": "runs",
    "identical": "identical",
    "max_margin_at_divergence": "margin",
    "max_logit_change": "logit change",
    "ratio": "ratio",
    "ratio_float32": "ratio f32",
    "verdict": "verdict",
}


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = add_command(
        subparsers,
        "preservation",
        summary="Measure which options keep the function and which change it.",
        example="labkit preservation --profile quick --knob chunked_prefill:chunk=64",
    )
    add_run_options(parser, default="quick")
    parser.add_argument("--model", metavar="MODEL", help="embedded, a local folder, or a hub id")
    parser.add_argument("--revision", metavar="COMMIT", help="the commit of a hub id")
    parser.add_argument(
        "--knob", action="append", dest="knobs", metavar="NAME", help="one option; may be repeated"
    )
    parser.add_argument(
        "--table", metavar="NAME", help="a table of options: main, more, bits or stacks"
    )
    parser.add_argument(
        "--stack",
        default=None,
        metavar="NAME",
        help="what runs baseline and options: transformers (default) or llamacpp",
    )
    parser.add_argument("--prompts", metavar="FILE", help='a .jsonl of {"text": "…"}, run whole')
    parser.add_argument("--steps", type=int, metavar="N", help="tokens generated after each prompt")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes that measure options side by side, each with its share of the cores and a "
        "model of its own: helps where one small model cannot keep all cores busy (default: 1)",
    )
    parser.add_argument("--out", metavar="FOLDER", help="the same as --run")
    parser.add_argument(
        "--from",
        dest="stored",
        metavar="FOLDER",
        help="run nothing: make a stored run's verdicts anew from its journal",
    )
    add_json_option(parser)
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Run the experiment; 1 if an option asked for by name, or any runtime one, is not kept.

    What does not apply to the model is no failure; what is undetermined or was not applied is.
    """
    args.run = _chosen_folder(args)
    section = _rejudged(args) if args.stored else _run(args)
    if args.json:
        print_json(section)
    else:
        print_table(section["rows"], _COLUMNS)
    asked = [row for row in section["rows"] if args.knobs or row["kind"] != "model"]
    kept = all(row["verdict"] in ("preserving", "not applicable") for row in asked)
    return EXIT_HOLDS if kept else EXIT_DOES_NOT_HOLD


def _chosen_folder(args: argparse.Namespace) -> str | None:
    """Return the folder of `--run` or of `--out`, which mean the same."""
    run: str | None = args.run
    out: str | None = args.out
    if run and out and Path(run) != Path(out):
        raise KnobError(
            "--out is the same as --run, so both must name one folder; "
            f"got --run={run}, --out={out}. Leave one out."
        )
    return run or out


def _rejudged(args: argparse.Namespace) -> dict[str, Any]:
    from labkit.experiments.rejudging import rejudge

    given = ("knobs", "table", "stack", "model", "revision", "prompts", "steps", "run")
    if wrong := [name for name in given if getattr(args, name) is not None]:
        raise KnobError(
            f"--from runs nothing, so nothing else can be chosen; got {', '.join(wrong)} as well."
        )
    return rejudge(args.stored)


def _run(args: argparse.Namespace) -> dict[str, Any]:
    from dataclasses import replace

    from labkit.experiments import preservation
    from labkit.profiles import load_profile

    profile = load_profile(args.profile)
    if args.revision and not args.model:
        profile = replace(profile, revision=args.revision)
    with progress_bar("preservation") as progress:
        return preservation.run(
            profile,
            args.run,
            model=args.model,
            revision=args.revision,
            knobs=args.knobs,
            table=args.table,
            stack=args.stack or "transformers",
            prompts=args.prompts,
            steps=args.steps,
            jobs=args.jobs,
            progress=progress,
        )
