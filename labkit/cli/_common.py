"""What the subcommands share: options of the same name, tables, JSON, a progress bar."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from labkit.experiments import Progress

# A text, because argparse's class is generic for the type checker only.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


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
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@contextmanager
def progress_bar(description: str) -> Iterator[Progress]:
    """Yield a progress function that draws on standard error, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda done, total, label: None
        return
    from tqdm import tqdm

    with tqdm(desc=description, file=sys.stderr, leave=False) as bar:

        def show(done: int, total: int, label: str) -> None:
            bar.total = total
            bar.set_postfix_str(label, refresh=False)
            bar.update(done - bar.n)

        yield show


def say(line: str) -> None:
    """Print a line of progress on standard error, at once."""
    print(line, file=sys.stderr, flush=True)
