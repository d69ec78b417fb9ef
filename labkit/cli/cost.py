"""`labkit cost`: what tokens and successes cost."""

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
from labkit.errors import EXIT_DOES_NOT_HOLD, EXIT_HOLDS, PlanningError

if TYPE_CHECKING:
    from labkit.planning import Quantity

_GPUS = "1"
_LABELS = {"price": "estimated", "throughput": "measured", "attempt": "estimated"}
_OF_A_RATE = (
    "price",
    "gpus",
    "throughput",
    "tokens",
    "tokens_per_attempt",
    "success_rate",
    *(f"{name}_label" for name in _LABELS),
)
_COLUMNS = {"what": "cost of", "value": "value", "unit": "unit", "label": "label"}


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = add_command(
        subparsers,
        "cost",
        summary="Say what a million tokens or a thousand successes cost in accelerator time.",
        example="labkit cost --price 4 --throughput 17686 --tokens output "
        '--at-most "0.10 $/M output token"',
    )
    parser.add_argument("--price", metavar="D", help="dollars an accelerator and hour")
    parser.add_argument("--gpus", metavar="N", help=f"provisioned (default: {_GPUS})")
    parser.add_argument("--throughput", metavar="R", help="tokens a second")
    parser.add_argument(
        "--tokens",
        choices=("output", "processed"),
        help="which tokens the throughput counts: generated ones, or prompt and generated",
    )
    parser.add_argument(
        "--tokens-per-attempt", metavar="N", help="output tokens of one attempt, on average"
    )
    parser.add_argument(
        "--success-rate", metavar="P", help="successes per attempt, from above 0 to 1"
    )
    parser.add_argument("--spent", metavar="D", help="instead of a price: dollars of a whole run")
    parser.add_argument("--successes", metavar="N", help="successes of that run")
    for name, default in _LABELS.items():
        parser.add_argument(
            f"--{name}-label",
            metavar="LABEL",
            help=f"measured, derived or estimated (default: {default})",
        )
    parser.add_argument(
        "--at-most", metavar="COST", help='a limit with its unit, such as "0.10 $/M output token"'
    )
    add_json_option(parser)
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Print the costs; with a limit, say by the exit status whether it is kept."""
    costs = _of_a_run(args) if args.spent is not None else _of_a_rate(args)
    judged = None if args.at_most is None else _judged(costs, args.at_most)
    kept = None if judged is None else not judged[0].exceeds(judged[1])
    rows = [{"what": what, **cost.to_json()} for what, cost in costs.items()]
    if args.json:
        print_json({"rows": rows, "holds": kept})
    else:
        print_table(rows, _COLUMNS)
        if judged and not kept:
            cost, limit = judged
            print(f"{float(cost.value):g} > {float(limit.value):g} {limit.unit}, the limit")
    return EXIT_DOES_NOT_HOLD if kept is False else EXIT_HOLDS


def _of_a_rate(args: argparse.Namespace) -> dict[str, Quantity]:
    from labkit.planning import cost_per_million, cost_per_thousand_successes_by_rate, quantity

    refuse_unused(args, "successes", mode="a cost without --spent")
    _need(args, "price", "throughput", "tokens")
    gpus = _GPUS if args.gpus is None else args.gpus
    rate = {
        "price": quantity(
            args.price, "$/GPU/hour", label=_label(args, "price"), source="the price given"
        ),
        "gpus": quantity(gpus, "GPU", label="measured", source="the number of accelerators"),
        "throughput": quantity(
            args.throughput,
            f"{args.tokens} token/s",
            label=_label(args, "throughput"),
            source="the throughput given",
        ),
    }
    costs = {f"{args.tokens} tokens": cost_per_million(**rate)}
    if args.tokens_per_attempt is None and args.success_rate is None:
        refuse_unused(args, "attempt_label", mode="a cost of tokens alone")
        return costs
    _need(args, "tokens_per_attempt", "success_rate")
    attempt = {
        "tokens_per_attempt": quantity(
            args.tokens_per_attempt,
            "output token/attempt",
            label=_label(args, "attempt"),
            source="the tokens of an attempt",
        ),
        "success_rate": quantity(
            args.success_rate,
            "success/attempt",
            label=_label(args, "attempt"),
            source="the success rate",
        ),
    }
    return {**costs, "successes": cost_per_thousand_successes_by_rate(**rate, **attempt)}


def _of_a_run(args: argparse.Namespace) -> dict[str, Quantity]:
    from labkit.planning import cost_per_success, quantity

    refuse_unused(args, *_OF_A_RATE, mode="--spent, the cost of a whole run,")
    _need(args, "spent", "successes")
    cost = cost_per_success(
        cost=quantity(args.spent, "$", label="measured", source="the cost of the run"),
        successes=quantity(args.successes, "success", label="measured", source="the run's count"),
    )
    return {"a success": cost}


def _label(args: argparse.Namespace, name: str) -> str:
    given: str | None = getattr(args, f"{name}_label")
    return _LABELS[name] if given is None else given


def _need(args: argparse.Namespace, *names: str) -> None:
    if missing := [name for name in names if getattr(args, name) is None]:
        options = ", ".join("--" + name.replace("_", "-") for name in missing)
        raise PlanningError(
            f"A cost must have all its inputs; got no {options}. "
            "Give a price, a throughput and which tokens it counts, or --spent and --successes."
        )


def _judged(costs: dict[str, Quantity], text: str) -> tuple[Quantity, Quantity]:
    """Return the cost in the limit's unit and the limit; one in no such unit cannot be compared."""
    from labkit.planning import quantity
    from labkit.planning.quantity import positive

    value, _, unit = text.strip().partition(" ")
    limit = quantity(value, unit.strip(), label="estimated", source="the limit given")
    same = [cost for cost in costs.values() if cost.unit == limit.unit]
    positive(limit, name="at_most", unit=str(limit.unit))
    return (same or list(costs.values()))[-1], limit
