"""`labkit capacity`: how many sequences a cache pool holds."""

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
    refuse_unused,
)
from labkit.errors import EXIT_DOES_NOT_HOLD, EXIT_HOLDS, PlanningError

if TYPE_CHECKING:
    from labkit.planning import Mix, Need, Pool
    from labkit.spec import ModelSpec

_CONFIDENCE = 0.99
_CACHE_BYTES = 2
_COLUMNS = {
    "length": "tokens each",
    "surely": "sequences",
    "at_most": "at most",
    "label": "label",
    "why": "why",
}


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = add_command(
        subparsers,
        "capacity",
        summary="Say how many sequences a cache pool holds, for one length or a mix of lengths.",
        example="labkit capacity --pool-tokens 245088 --length 2048 --headroom 0.1 --sequences 100",
    )
    _add_pool(parser)
    lengths = parser.add_mutually_exclusive_group(required=True)
    lengths.add_argument(
        "--length",
        type=int,
        nargs="+",
        metavar="N",
        help="prompt plus reserved output of each sequence, in tokens",
    )
    lengths.add_argument(
        "--lengths",
        metavar="FILE",
        help="a mix: a line of JSON a request, {prompt_tokens, max_new_tokens} or {tokens}",
    )
    parser.add_argument(
        "--sequences",
        type=int,
        metavar="N",
        help="how many have to fit (default: one, or all lines of the file together)",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        metavar="P",
        help="with --lengths, the probability that so many drawn from them fit "
        f"(default: {_CONFIDENCE})",
    )
    add_json_option(parser)
    parser.set_defaults(execute=execute)


def _add_pool(parser: argparse.ArgumentParser) -> None:
    pool = parser.add_mutually_exclusive_group(required=True)
    pool.add_argument("--pool-tokens", type=int, metavar="N", help="token slots an engine reports")
    pool.add_argument("--pool-blocks", type=int, metavar="N", help="cache blocks an engine reports")
    pool.add_argument(
        "--pool-bytes", type=int, metavar="N", help="bytes set aside; an estimate, needs --spec"
    )
    parser.add_argument("--spec", metavar="CONFIG", help="the model's config.json or its folder")
    parser.add_argument(
        "--block", type=int, default=16, metavar="N", help="tokens of one block (default: 16)"
    )
    parser.add_argument(
        "--headroom", default="0", metavar="SHARE", help="share kept free, such as 0.1 (default: 0)"
    )
    parser.add_argument(
        "--bytes-per-element",
        type=int,
        metavar="N",
        help=f"with --pool-bytes, of the cache (default: {_CACHE_BYTES})",
    )
    parser.add_argument(
        "--state-bytes",
        type=int,
        metavar="N",
        help="with --pool-bytes, fixed state of a sequence, where measured",
    )


def execute(args: argparse.Namespace) -> int:
    """Print the bounds, and say by the exit status whether the wanted sequences fit."""
    from labkit.planning import need_of

    _refuse_unused(args)
    pool, spec = _pool(args), _spec(args)
    width = _CACHE_BYTES if args.bytes_per_element is None else args.bytes_per_element

    def need(tokens: int) -> Need:
        return need_of(
            pool, tokens, spec=spec, bytes_per_element=width, state_bytes=args.state_bytes
        )

    if args.lengths is None:
        return _equal(args, pool, {length: need(length) for length in args.length})
    from labkit.planning.lengths import read_lengths

    return _mixed(args, pool, [need(length) for length in read_lengths(Path(args.lengths))])


def _refuse_unused(args: argparse.Namespace) -> None:
    if args.lengths is None:
        refuse_unused(args, "confidence", mode="--length")
    if args.pool_bytes is None:
        mode = "--pool-tokens" if args.pool_blocks is None else "--pool-blocks"
        refuse_unused(args, "bytes_per_element", "state_bytes", mode=mode)


def _pool(args: argparse.Namespace) -> Pool:
    from labkit.planning import pool_of_blocks, pool_of_bytes, pool_of_tokens

    if args.pool_tokens is not None:
        return pool_of_tokens(args.pool_tokens, block_tokens=args.block, headroom=args.headroom)
    if args.pool_blocks is not None:
        return pool_of_blocks(args.pool_blocks, block_tokens=args.block, headroom=args.headroom)
    return pool_of_bytes(args.pool_bytes, block_tokens=args.block, headroom=args.headroom)


def _spec(args: argparse.Namespace) -> ModelSpec | None:
    if args.spec is None:
        return None
    from labkit.experiments.fingerprints import read_specs

    specs = read_specs([args.spec])
    if len(specs) != 1:
        raise PlanningError(
            f"--spec must name one config; got {len(specs)} in {args.spec}. Name one of its files."
        )
    return specs[0]


def _equal(args: argparse.Namespace, pool: Pool, needs: dict[int, Need]) -> int:
    from dataclasses import asdict

    from labkit.planning import equal_length_bound
    from labkit.planning.pool import counted

    wanted = 1 if args.sequences is None else counted(args.sequences, name="sequences")
    bounds = {length: equal_length_bound(pool, need) for length, need in needs.items()}
    rows = [
        {"length": length, **asdict(bound), "holds": bound.holds(wanted)}
        for length, bound in bounds.items()
    ]
    if args.json:
        print_json({"pool": pool.size.to_json(), "wanted": wanted, "rows": rows})
    else:
        print_table(rows, _COLUMNS)
        for length, bound in bounds.items():
            if bound.holds(wanted) is False:
                most = "" if bound.surely == bound.at_most else "at most "
                print(f"of {length:,} tokens each: {wanted:,} asked, {most}{bound.at_most:,} fit")
    return _status(
        [bound.holds(wanted) for bound in bounds.values()], open_because=_unknown(wanted)
    )


def _mixed(args: argparse.Namespace, pool: Pool, needs: list[Need]) -> int:
    from dataclasses import asdict

    from labkit.planning import mixed_length_bound
    from labkit.planning.pool import counted

    confidence = _CONFIDENCE if args.confidence is None else args.confidence
    mix = mixed_length_bound(pool, needs, confidence=confidence)
    wanted = len(needs) if args.sequences is None else counted(args.sequences, name="sequences")
    holds = mix.together if args.sequences is None else mix.holds(wanted)
    if args.json:
        print_json({"pool": pool.size.to_json(), "wanted": wanted, **asdict(mix), "holds": holds})
    else:
        print_table(_mix_rows(mix, unit=str(pool.size.unit)), {"what": "mix", "count": mix.label})
        if holds is False:
            print(_why_not(args.sequences, mix, unit=str(pool.size.unit)))
    drawn = args.sequences is not None and mix.at_confidence is not None
    return _status([holds], open_because=_between(mix, wanted) if drawn else _unknown(wanted))


def _why_not(asked: int | None, mix: Mix, *, unit: str) -> str:
    """Return why a mix does not fit: all its lengths together, or so many drawn from them."""
    if asked is not None:
        most = f"at most {mix.all_shortest:,} fit, were all as short as the shortest"
        return f"{asked:,} asked; {most}"
    needed = "more" if mix.needed is None else f"{mix.needed:,} {unit}s"
    return f"{mix.sequences:,} asked together, which need {needed}; {mix.usable:,} may be given out"


def _mix_rows(mix: Mix, *, unit: str) -> list[dict[str, object]]:
    rows = {
        "lengths given": mix.sequences,
        f"{unit}s they need together": mix.needed,
        f"{unit}s that may be given out": mix.usable,
        "they fit together": mix.together,
        "sequences, all as short as the shortest": mix.all_shortest,
        "sequences, all as long as the longest": mix.all_longest,
        f"sequences drawn from them, at {mix.confidence:g}": mix.at_confidence,
        "sequences, all as long as the mean": mix.on_average,
    }
    return [{"what": what, "count": count} for what, count in rows.items()]


def _status(holds: list[bool | None], *, open_because: str) -> int:
    if False in holds:
        return EXIT_DOES_NOT_HOLD
    if None in holds:
        raise PlanningError(open_because)
    return EXIT_HOLDS


def _unknown(wanted: int) -> str:
    return (
        f"Whether {wanted} sequences fit must follow from what is known; it does not, for the "
        "reason beside the bound. Measure the pool in tokens, or give --state-bytes of at least 1."
    )


def _between(mix: Mix, wanted: int) -> str:
    return (
        f"Whether {wanted} drawn sequences fit must follow from a bound; {mix.at_confidence:,} "
        f"fit at a confidence of {mix.confidence:g}, and only more than {mix.all_shortest:,} "
        "cannot. Ask for fewer, or for less confidence."
    )
