"""What the subcommands share: options of the same name, tables, JSON, a progress bar."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from labkit.errors import RequestError

if TYPE_CHECKING:
    from labkit.progress import Progress

# A text, because argparse's class is generic for the type checker only.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

SECONDS_BETWEEN_LINES = 30


def add_command(
    subparsers: Subparsers, name: str, *, summary: str, example: str
) -> argparse.ArgumentParser:
    """Add a subcommand whose help ends with an example."""
    return subparsers.add_parser(
        name,
        help=summary[0].lower() + summary[1:].rstrip("."),
        description=summary,
        epilog=f"example: {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def add_run_options(parser: argparse.ArgumentParser, *, default: str) -> None:
    """Add `--profile` and `--run`."""
    parser.add_argument(
        "--profile",
        default=default,
        metavar="NAME",
        help=f"a file of data/profiles, or a YAML file of your own (default: {default})",
    )
    parser.add_argument(
        "--run", metavar="FOLDER", help="folder that keeps the results, such as results/mine"
    )


def refuse_unused(args: argparse.Namespace, *names: str, mode: str) -> None:
    """Refuse options that were given and that a command does not use in this mode.

    Args:
        args: The parsed options; those that are asked about default to None.
        names: The unused ones, as attributes of `args`.
        mode: The options that set the mode, as a user writes them.

    Raises:
        RequestError: If one was given, by name and value.
    """
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}={value}" for name, value in given.items())
        raise RequestError(
            f"Every option must have a use; got {options}, which {mode} does not read. "
            "Leave it out."
        )


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """Print rows as aligned text.

    Args:
        rows: The rows.
        columns: The heading of each key that is shown.
    """
    lines = [list(columns.values())]
    lines += [[_cell(row.get(key)) for key in columns] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else printable(str(value))


def printable(text: str) -> str:
    """Return a text on one line; what would move the cursor or colour a terminal is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """Return a text with its line breaks, every other control character escaped."""
    return "\n".join(printable(line) for line in text.split("\n"))


@contextmanager
def progress_bar(description: str) -> Iterator[Progress]:
    """Yield a progress function: a bar on a terminal, now and then a line in a log."""
    if not sys.stderr.isatty():
        yield _line_now_and_then(description)
        return
    from tqdm import tqdm

    with tqdm(desc=description, file=sys.stderr, leave=False) as bar:

        def show(done: int, total: int, label: str) -> None:
            bar.total = total
            bar.set_postfix_str(label, refresh=False)
            bar.update(done - bar.n)

        yield show


def _line_now_and_then(description: str) -> Progress:
    last_s = time.monotonic()

    def show(done: int, total: int, label: str) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= SECONDS_BETWEEN_LINES:
            last_s = time.monotonic()
            say(f"{description}: {done} of {total}, {label}")

    return show


def say(line: str) -> None:
    """Print a line of progress on standard error, at once."""
    print(line, file=sys.stderr, flush=True)
