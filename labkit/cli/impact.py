"""`labkit impact`: two sets of outputs for the same items, under a contract."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.cli._common import (
    Subparsers,
    add_command,
    add_json_option,
    print_json,
    print_table,
    refuse_unused,
)
from labkit.errors import EXIT_BAD_INPUT, EXIT_DOES_NOT_HOLD, EXIT_HOLDS, OutputsError
from labkit.files import load_json_strict

if TYPE_CHECKING:
    from labkit.paired import Impact, Limits, Verdict

_LIMITS = {
    "max_lost": (int, "N", "items that may go from right to wrong (default: any)"),
    "max_net_loss": (
        float,
        "POINTS",
        "loss that the net change's interval may reach (default: 2)",
    ),
    "max_different": (float, "PERCENT", "share of outputs that may differ (default: any)"),
    "margin": (
        float,
        "POINTS",
        "difference of two aggregates, for --contract statistical (default: 2)",
    ),
}
_USED_BY = {
    "max_lost": ("task",),
    "max_net_loss": ("task",),
    "max_different": ("task",),
    "margin": ("statistical",),
    "limits": ("task", "statistical"),
    "items": ("bitwise", "task"),
    "independent_samples": ("statistical",),
}
_EXITS = {
    "holds": EXIT_HOLDS,
    "does not hold": EXIT_DOES_NOT_HOLD,
    "undetermined": EXIT_BAD_INPUT,
}
_ITEM_COLUMNS = {
    "id": "item",
    "cluster": "cluster",
    "before": "before",
    "after": "after",
    "change": "change",
}


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = add_command(
        subparsers,
        "impact",
        summary="Compare two sets of outputs for the same items: the text, and the task.",
        example="labkit impact data/outputs/float32 data/outputs/int8 --max-lost 2",
    )
    parser.epilog = f"{parser.epilog}\nexit status: 0 holds, 1 does not hold, 2 undetermined"
    parser.add_argument("before", metavar="BEFORE", help="outputs of the reference path")
    parser.add_argument("after", metavar="AFTER", help="outputs of the changed path")
    parser.add_argument(
        "--extractor", default="last_number", metavar="NAME", help="default: last_number"
    )
    parser.add_argument(
        "--contract",
        choices=("bitwise", "task", "statistical"),
        default="task",
        help="what must stay the same (default: task)",
    )
    parser.add_argument("--limits", metavar="FILE", help="the limits as a JSON object")
    for name, (kind, metavar, what) in _LIMITS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=metavar, help=what)
    parser.add_argument(
        "--independent-samples",
        action="store_true",
        default=None,
        help="declare that the files share no question and are samples of one population, for "
        "--contract statistical",
    )
    parser.add_argument(
        "--items", action="store_true", default=None, help="list the items that changed"
    )
    add_json_option(parser)
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Print the comparison and the verdict; 1 if the contract does not hold, 2 if none can say."""
    from labkit.outputs import read_outputs
    from labkit.paired import CONTRACTS, measure_impact, pair_outputs, statistical
    from labkit.scoring import find_extractor

    unused = [name for name, contracts in _USED_BY.items() if args.contract not in contracts]
    refuse_unused(args, *unused, mode=f"--contract {args.contract}")
    extractor, limits = find_extractor(args.extractor), _limits(args)
    before, after = read_outputs(args.before), read_outputs(args.after)
    contract = CONTRACTS[args.contract]
    if args.independent_samples:
        contract = partial(statistical, independent_samples=True)
    verdict = contract(before, after, extractor, limits)
    # Only the statistical contract lets the two sets hold different items.
    paired = args.contract != "statistical"
    impact = measure_impact(pair_outputs(before, after), extractor) if paired else None
    if args.json:
        shown = impact.to_json() if impact else None
        print_json({"verdict": verdict.to_json(), "impact": shown})
    else:
        _print(impact, verdict, with_items=args.items)
    return _EXITS[verdict.answer]


def _limits(args: argparse.Namespace) -> Limits:
    from labkit.paired import Limits

    stored = _read_limits(Path(args.limits)) if args.limits else {}
    given = {name: getattr(args, name) for name in _LIMITS}
    return Limits.from_json(stored | {k: v for k, v in given.items() if v is not None})


def _read_limits(path: Path) -> dict[str, Any]:
    stored = load_json_strict(path, what="limits", error=OutputsError)
    if not isinstance(stored, dict):
        raise OutputsError(f"limits must be a JSON object; got {path}: {type(stored).__name__}.")
    return stored


def _print(impact: Impact | None, verdict: Verdict, *, with_items: bool) -> None:
    if impact:
        _print_impact(impact)
    if impact and with_items:
        print_table([_item_row(item) for item in impact.items if item.change], _ITEM_COLUMNS)
    print(f"{verdict.contract}: {verdict.answer}. {verdict.sentence}")
    for gap in verdict.not_evaluated:
        print(f"not evaluated: {gap}")


def _print_impact(impact: Impact) -> None:
    cells, text = impact.transitions, impact.divergence
    rows = [
        {"before": "right", "right": cells.right_right, "wrong": cells.right_wrong},
        {"before": "wrong", "right": cells.wrong_right, "wrong": cells.wrong_wrong},
    ]
    print_table(rows, {"before": "before", "right": "right after", "wrong": "wrong after"})
    print(f"text: {text.different} of {text.items} outputs differ, by their {text.compared}")
    p_value = "not tested" if impact.p_value is None else f"{impact.p_value:.3g}"
    print(f"task ({impact.extractor}): net {cells.net_points:+.2f} points; McNemar p {p_value}")
    for interval in (impact.exact, impact.clustered):
        if interval:
            print(f"  {interval.low:+.2f} to {interval.high:+.2f}: {interval.method}")


def _item_row(item: Any) -> dict[str, object]:
    return {
        "id": item.id,
        "cluster": item.cluster,
        "before": f"{item.before.answer} ({item.before.outcome})",
        "after": f"{item.after.answer} ({item.after.outcome})",
        "change": {1: "gained", -1: "lost"}[item.change],
    }
