"""`labkit score`: from frozen outputs to scores, with what belongs beside a score."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from labkit.cli._common import (
    Subparsers,
    add_command,
    add_json_option,
    print_json,
    print_table,
    refuse_unused,
)
from labkit.errors import EXIT_DOES_NOT_HOLD, EXIT_HOLDS, OutputsError

if TYPE_CHECKING:
    from labkit.scoring import Knee, KneeLimits, LengthReport, Spread

_COLUMNS = {
    "extractor": "extractor",
    "version": "version",
    "items": "items",
    "right": "right",
    "accuracy": "accuracy",
    "missing": "missing",
    "not_judged": "not judged",
    "several": "several",
}


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = add_command(
        subparsers,
        "score",
        summary="Score frozen outputs by named rules; with --caps, find the knee of the cap.",
        example="labkit score data/outputs/float32 --extractor last_number --caps 16,32,64,96",
    )
    parser.epilog = (
        f"{parser.epilog}\nexit status: 0 scored, 1 a knee is not found or not confirmed"
    )
    parser.add_argument("outputs", metavar="OUTPUTS", help="a .jsonl of outputs, or its folder")
    parser.add_argument(
        "--extractor",
        action="append",
        dest="extractors",
        metavar="NAME",
        help="a rule; may be repeated (default: all)",
    )
    parser.add_argument("--caps", metavar="N,N,…", help="sweep these caps by cutting the outputs")
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="POINTS",
        help="with --caps: distance from the plateau that is near enough (default: 1)",
    )
    parser.add_argument(
        "--max-at-cap",
        type=float,
        metavar="PERCENT",
        help="with --caps: share of outputs at the cap that is little enough (default: 5)",
    )
    add_json_option(parser)
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Print the scores; with --caps, 1 unless a knee was found and held on the other half."""
    from dataclasses import asdict

    from labkit.outputs import read_outputs
    from labkit.scoring import EXTRACTORS, calibrate, find_extractor, report_lengths, score, spread

    caps, limits = _caps(args), _limits(args)
    rules = [find_extractor(name) for name in dict.fromkeys(args.extractors or EXTRACTORS)]
    outputs = read_outputs(args.outputs)
    scores = [score(outputs.items, rule) for rule in rules]
    knees = {rule.name: calibrate(outputs.items, rule, caps, limits) for rule in rules if caps}
    report = report_lengths(outputs.items)
    if args.json:
        print_json(
            {
                "outputs": outputs.name,
                "sha256": outputs.sha256,
                "scores": [
                    one.to_json() | {"item_scores": [asdict(i) for i in one.items]}
                    for one in scores
                ],
                "spread": asdict(spread(scores)),
                "lengths": asdict(report) | {"share_at_cap": report.share_at_cap},
                "knees": {name: asdict(knee) for name, knee in knees.items()},
            }
        )
    else:
        print_table([one.to_json() for one in scores], _COLUMNS)
        _print_lengths(report)
        if len(scores) > 1:
            _print_spread(spread(scores))
        for name, knee in knees.items():
            print(f"{name}: {_knee_sentence(knee)}")
    return EXIT_HOLDS if all(knee.confirmed for knee in knees.values()) else EXIT_DOES_NOT_HOLD


def _caps(args: argparse.Namespace) -> list[int]:
    if args.caps is None:
        return []
    try:
        return [int(part) for part in args.caps.split(",")]
    except ValueError as error:
        raise OutputsError(
            f"--caps must be whole numbers with commas between; got {args.caps!r}."
        ) from error


def _limits(args: argparse.Namespace) -> KneeLimits:
    """Return what the options say is enough, refusing them without the caps that they judge."""
    from labkit.scoring import KneeLimits

    if args.caps is None:
        refuse_unused(args, "tolerance", "max_at_cap", mode="a score without --caps")
    for name, value in {"tolerance": args.tolerance, "max-at-cap": args.max_at_cap}.items():
        if value is not None and not 0 <= value <= 100:
            raise OutputsError(f"--{name} must lie between 0 and 100; got {name}={value}.")
    limits = KneeLimits()
    return KneeLimits(
        tolerance_points=limits.tolerance_points if args.tolerance is None else args.tolerance,
        max_share_at_cap=(
            limits.max_share_at_cap if args.max_at_cap is None else args.max_at_cap / 100
        ),
    )


def _print_lengths(report: LengthReport) -> None:
    cap = report.cap_tokens or "not reached, or not the same for all"
    lengths = ", ".join(f"{name} {tokens}" for name, tokens in report.lengths.items())
    reasons = ", ".join(f"{name} {count}" for name, count in report.stop_reasons.items())
    print(f"cap {cap}; tokens: {lengths}; ended by: {reasons}")
    print(f"at the cap: {report.at_cap} of {report.outputs} ({report.share_at_cap:.1%})")
    if report.reasoning_tokens is None or report.answer_tokens is None:
        print("reasoning tokens: not evaluated, some outputs state no token boundaries")
    else:
        print(
            f"mean tokens: reasoning {report.reasoning_tokens:.1f}, "
            f"answer {report.answer_tokens:.1f}"
        )


def _print_spread(found: Spread) -> None:
    print(
        f"spread over extractors: {found.points:.2f} points, {found.lowest} to {found.highest}; "
        f"disputed items: {found.disputed}"
    )


def _knee_sentence(knee: Knee) -> str:
    if knee.cap is None:
        return "no knee; even the largest cap truncates too many outputs to be a plateau"
    return f"knee at {knee.cap} tokens; " + (
        "it holds on the other half" if knee.confirmed else "it does not hold on the other half"
    )
