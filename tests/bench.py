"""Measure the lab's own ratios, times and sizes, and write them to a file (`make bench`).

A ratio alternates its two sides in one run, so that a slow moment of the machine hits both, and is
the median over pairs. Exit status 1 means that a figure missed its target.
A bench of your own is a file in `benches`.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from benches._figures import Figure

_FILES = sorted(Path(__file__).with_name("benches").glob("[!_]*.py"))
BENCHES = {file.stem.rstrip("_"): file.stem for file in _FILES}
"""The module of each bench by its name; one that is a word of Python's ends with `_`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benches named, or all, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("benches", nargs="*", help=f"which of {', '.join(BENCHES)}; default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    args = parser.parse_args(arguments)
    if unknown := [name for name in args.benches if name not in BENCHES]:
        parser.error(f"no such bench: {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    figures = []
    for name in args.benches or BENCHES:
        for found in import_module(f"benches.{BENCHES[name]}").measure_figures():
            figures.append(found)
            bound = "" if found.target is None else f" (target {'≤' if found.at_most else '≥'} "
            bound += "" if found.target is None else f"{found.target:g})"
            mark = "" if found.holds else "  MISSED"
            print(f"{found.name}: {found.value:,.4g} {found.unit}{bound}{mark}", flush=True)
            if args.json:
                _write(args.json, figures)
    return 0 if all(found.holds for found in figures) else 1


def _write(path: Path, figures: Sequence[Figure]) -> None:
    """Write the figures so far, so that a later bench that fails loses none."""
    from labkit.files import dump_json, write_atomically
    from labkit.record import describe_device, package_versions

    report = {
        "figures": [asdict(found) | {"holds": found.holds} for found in figures],
        "python": platform.python_version(),
        "packages": package_versions(),
        "device": describe_device(),
    }
    write_atomically(path, dump_json(report, what=path.name))


if __name__ == "__main__":
    sys.exit(main())
