"""The command line: parse, call, print. What is heavy is loaded by the subcommand that needs it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
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
        print(f"labkit {args.command}: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print(
            f"labkit {args.command}: interrupted; nothing that was finished is lost. "
            "Call the same command again and it goes on.",
            file=sys.stderr,
        )
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away; without this Python complains again while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    return status
