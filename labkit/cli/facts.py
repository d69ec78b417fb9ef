"""`labkit facts`: learn what is true of this runtime by trying it, or check what was declared."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.cli._common import Subparsers, add_command, add_json_option, print_json, say
from labkit.errors import EXIT_DOES_NOT_HOLD, EXIT_HOLDS, RequestError

if TYPE_CHECKING:
    from labkit.facts import LearnedFacts


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = add_command(
        subparsers,
        "facts",
        summary="Learn the runtime's facts by trying each, or check facts that were declared.",
        example="labkit facts --model embedded --out facts.json",
    )
    parser.add_argument(
        "--model", metavar="MODEL", help="embedded, a local folder, or a hub id (default: none)"
    )
    parser.add_argument("--revision", metavar="COMMIT", help="the commit of a hub id")
    parser.add_argument("--device", metavar="NAME", help="cpu or cuda (default: cuda if there)")
    parser.add_argument(
        "--thorough", action="store_true", help="try what takes more than ten seconds as well"
    )
    parser.add_argument(
        "--no-compile", action="store_true", help="leave out whether this machine compiles"
    )
    file = parser.add_mutually_exclusive_group()
    file.add_argument("--out", metavar="FILE", help="write the facts for `labkit admission`")
    file.add_argument(
        "--check", metavar="FILE", help="try each fact that a file declares; 1 if one is wrong"
    )
    add_json_option(parser)
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Learn the facts, or check a file of them."""
    if args.revision and not args.model:
        raise RequestError(
            f"A revision must belong to a model; got --revision={args.revision!r} alone. "
            "Add --model."
        )
    options: dict[str, Any] = {
        "model": args.model,
        "revision": args.revision,
        "device": args.device,
        "thorough": args.thorough,
        "compile_here": not args.no_compile,
        "say": say,
    }
    return _check(args, options) if args.check else _learn(args, options)


def _learn(args: argparse.Namespace, options: dict[str, Any]) -> int:
    from labkit.experiments import facts

    learned = facts.learn(**options)
    if args.out:
        facts.write_facts(learned, Path(args.out))
    if args.json:
        print_json({**learned.to_json(), "facts": learned.to_facts_json()})
    else:
        _print(learned)
    return EXIT_HOLDS


def _print(learned: LearnedFacts) -> None:
    print(f"learned {learned.learned_utc}")
    for finding in learned.findings:
        if finding.value is not None:
            print(f"{finding.name}: {_short(finding.value)}\n    {finding.how}")
    for name, why in learned.unlearned().items():
        print(f"{name}: unknown\n    {why}")


def _short(value: object) -> str:
    """Return a value on one line; long lists by their length."""
    if isinstance(value, tuple | list):
        listed = ", ".join(str(item) for item in value) or "none"
        return listed if len(listed) <= 100 else f"{len(value)} names"
    return str(value)


def _check(args: argparse.Namespace, options: dict[str, Any]) -> int:
    from labkit.experiments import facts

    checked = facts.check_file(Path(args.check), **options)
    if args.json:
        print_json([item.to_json() for item in checked])
    else:
        for item in checked:
            print(item)
    wrong = any(item.verdict == "contradicts" for item in checked)
    return EXIT_DOES_NOT_HOLD if wrong else EXIT_HOLDS
