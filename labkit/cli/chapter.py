"""`labkit chapter` and `labkit book`: run every notebook, build the site."""

from __future__ import annotations

import argparse
from pathlib import Path

from labkit.cli._common import (
    Subparsers,
    add_command,
    add_json_option,
    add_run_options,
    print_json,
    progress_bar,
    say,
)
from labkit.errors import EXIT_HOLDS, LabError


def add_to(subparsers: Subparsers) -> None:
    """Add both subcommands."""
    chapter = add_command(
        subparsers,
        "chapter",
        summary="Run the notebooks with one profile and build the book from them.",
        example="labkit chapter --profile quick --run results/mine",
    )
    add_run_options(chapter, default="cpu")
    chapter.add_argument("--no-book", action="store_true", help="leave the book as it is")
    add_json_option(chapter)
    chapter.set_defaults(execute=execute_chapter)
    book = add_command(
        subparsers,
        "book",
        summary="Build the book from a run that is finished.",
        example="labkit book --run results/published-cpu",
    )
    book.add_argument(
        "--run",
        metavar="FOLDER",
        help="the run shown (default: your last finished one, else the published one)",
    )
    book.add_argument(
        "--into",
        metavar="FOLDER",
        help="build a copy of the book there and leave yours as it is",
    )
    book.add_argument(
        "--pdf",
        metavar="FILE",
        help="print the whole chapter into one PDF as well (needs a Chromium)",
    )
    add_json_option(book)
    book.set_defaults(execute=execute_book)


def execute_chapter(args: argparse.Namespace) -> int:
    """Run what is not finished, then build the book."""
    from labkit.chapter import run_chapter
    from labkit.profiles import load_profile

    done = run_chapter(load_profile(args.profile), run=args.run, say=say, bar=progress_bar)
    page = None if args.no_book else _build(done.path)
    _report(
        {
            "run": str(done.path),
            "executed": list(done.executed),
            "reused": list(done.reused),
            "elapsed_s": round(done.elapsed_s, 1),
            "book": str(page) if page else None,
        },
        as_json=args.json,
    )
    return EXIT_HOLDS


def execute_book(args: argparse.Namespace) -> int:
    """Build the book from a finished run."""
    from labkit.book import choose_run

    run_dir = choose_run(args.run)
    page = _build(run_dir, into=Path(args.into) if args.into else None)
    result: dict[str, object] = {"run": str(run_dir), "book": str(page)}
    if args.pdf:
        result |= {"pdf": args.pdf, "sheets": _print(page, Path(args.pdf))}
    _report(result, as_json=args.json)
    return EXIT_HOLDS


def _build(run_dir: Path, *, into: Path | None = None) -> Path:
    from labkit.book import build_book, copy_source, stage_run

    root = copy_source(into.resolve()) if into else None
    stage_run(run_dir, root=root)
    _get_playground()
    say("book: building")
    return build_book(root=root)


def _get_playground() -> None:
    """Fetch the playground's Python if need be; the book builds without it too."""
    from labkit.pyodide import fetch_archive, find_archive

    if find_archive():
        return
    say("book: fetching Python for the admission playground, once")
    try:
        fetch_archive()
    except LabError as error:
        say(f"warning: the playground of the book will not decide. {error}")


def _print(first: Path, pdf: Path) -> int:
    from labkit.book import FIRST_PAGE, pages_in_order, print_pages

    return print_pages(pages_in_order(first.parent / FIRST_PAGE), pdf, say=say)


def _report(result: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    print(f"Results: {result['run']}")
    if page := result.get("book"):
        print(f"Book:    {page}")
        print(f"Read it: python3 -m http.server --directory {Path(str(page)).parent} 8000")
        print("         and open http://127.0.0.1:8000")
    if "pdf" in result:
        print(f"PDF:     {result['pdf']}, {result['sheets']} sheets")
