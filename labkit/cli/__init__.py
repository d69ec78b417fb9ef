"""The command line: parse, call, print. What is heavy is loaded by the subcommand that needs it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence

from labkit import __version__
from labkit.cli import (
    admission,
    capacity,
    chapter,
    cost,
    facts,
    fallbacks,
    fingerprints,
    impact,
    models,
    outputs,
    preservation,
    record,
    score,
)
from labkit.cli._common import printable_lines
from labkit.errors import EXIT_BAD_INPUT, LabError

__all__ = ["build_parser", "main"]

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

_COMMANDS = (
    fingerprints,
    preservation,
    fallbacks,
    admission,
    facts,
    capacity,
    cost,
    outputs,
    score,
    impact,
    chapter,
    record,
    models,
)

# Others keep no step by themselves, or only with an option that `_interrupted` knows.
_KEEPS_STEPS = ("chapter", "outputs")

_EPILOG = """\
exit status: 0 it holds, 1 it does not (a request is rejected, a declared fact is contradicted,
a runtime row is not preserving, two records are of different artefacts, a contract is not kept),
2 it could not be answered: the message says what to mend.

example: labkit fingerprints path/to/config.json
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole program."""
    parser = argparse.ArgumentParser(
        prog="labkit",
        description="Does an inference option change how a model is computed, or the model?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"labkit {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add_to(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    args = build_parser().parse_args(argv)
    if threading.current_thread() is threading.main_thread():
        # A polite kill ends like Ctrl-C: what runs is shut down and recorded.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        status = int(args.execute(args))
        sys.stdout.flush()
    except LabError as error:
        print(printable_lines(f"labkit {args.command}: {error}"), file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print(f"labkit {args.command}: {_interrupted(args)}", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away; without this Python complains again while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception:
        # Python's own status for it, 1, would read as a verdict.
        print(printable_lines(traceback.format_exc().rstrip()), file=sys.stderr)
        print(
            f"labkit {args.command}: this is a fault of the lab and no verdict; "
            "please report it with the lines above.",
            file=sys.stderr,
        )
        return EXIT_BAD_INPUT
    return status


def _interrupted(args: argparse.Namespace) -> str:
    """Return what an interrupt says: whether the command keeps what it has finished."""
    if args.command == "preservation":
        keeps = bool(args.run or args.out)
    elif args.command == "fallbacks":
        keeps = bool(args.matrix or args.releases) and not (args.again or args.stack)
    else:
        keeps = args.command in _KEEPS_STEPS
    if not keeps:
        return "interrupted."
    return (
        "interrupted; nothing that was finished is lost. "
        "Call the same command again and it goes on."
    )
