"""`labkit fallbacks --matrix`: the same probes, release by release."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from labkit.cli._common import print_json, print_table, progress_bar, say
from labkit.errors import EXIT_HOLDS

_SHORT = {"not_askable": "–"}


def add_release_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that ask several releases."""
    parser.add_argument(
        "--matrix",
        action="store_true",
        help="ask several releases of transformers, each in an environment of its own, and keep "
        "the answers in data/fallbacks (or in --run)",
    )
    parser.add_argument(
        "--release",
        action="append",
        dest="releases",
        metavar="X.Y.Z",
        help="ask this release (implies --matrix); may be repeated",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="ask also what was asked before on this stack (implies --matrix)",
    )


def execute_matrix(args: argparse.Namespace) -> int:
    """Ask the releases and print a row a probe, a column a release."""
    from labkit.experiments import releases
    from labkit.profiles import load_profile

    with progress_bar("releases") as progress:
        matrix = releases.run(
            args.run,
            releases=args.releases,
            probes=args.probes,
            again=args.again,
            device=load_profile(args.profile).device,
            make=lambda release: releases.make_environment(release, say=say),
            progress=progress,
        )
    if stale := releases.stale_releases(args.run):
        say(f"asked by other probes, left out until asked again: {', '.join(stale)}")
    if args.json:
        print_json(matrix)
        return EXIT_HOLDS
    columns = {column["release"]: column["release"] for column in matrix["releases"]}
    print_table(_table(matrix), {"number": "no.", "probe": "probe", **columns})
    print("* went on, and did something else than asked; – could not be asked")
    return EXIT_HOLDS


def _table(matrix: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = {probe["probe"]: dict(probe) for probe in matrix["probes"]}
    for column in matrix["releases"]:
        for row in column["rows"]:
            word = _SHORT.get(row["outcome"], row["outcome"])
            rows[row["probe"]][column["release"]] = word + ("*" if row["substituted"] else "")
    return list(rows.values())
