"""`labkit fallbacks --matrix`: the same probes, release by release."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from labkit.cli._common import print_json, print_table, progress_bar, say
from labkit.errors import EXIT_HOLDS, RequestError

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
    parser.add_argument(
        "--stack",
        choices=["llamacpp"],
        help="ask this stack instead, and keep its answers beside the releases'",
    )


def execute_matrix(args: argparse.Namespace) -> int:
    """Ask the releases and print a row a probe, a column a release."""
    from labkit.experiments import releases
    from labkit.profiles import load_profile

    if args.stack:
        return _execute_stack(args)
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
    print_table(_table(matrix), {"number": "no.", "probe": "probe", **_heads(matrix)})
    print("* went on, and did something else than asked; – could not be asked")
    return EXIT_HOLDS


def _execute_stack(args: argparse.Namespace) -> int:
    """Ask llama.cpp and print its rows: the shared questions, then its own."""
    from labkit.experiments import releases

    given = {"--probe": args.probes, "--release": args.releases}
    if unused := [f"{name} {' '.join(value)}" for name, value in given.items() if value]:
        raise RequestError(
            f"Every option must have a use; got {', '.join(unused)}, which --stack does not read: "
            "it asks every question anew. Leave it out."
        )
    with progress_bar("llama.cpp") as progress:
        matrix = releases.run_llamacpp(args.run, progress=progress)
    column = matrix["others"][-1]
    if args.json:
        print_json(column)
        return EXIT_HOLDS
    print_table(
        [*column["rows"], *column["own"]],
        {
            "probe": "question",
            "outcome": "outcome",
            "did_it": "did it",
            "substituted": "substituted",
        },
    )
    return EXIT_HOLDS


def _columns(matrix: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*matrix["releases"], *matrix.get("others", ())]


def _heads(matrix: Mapping[str, Any]) -> dict[str, str]:
    """Return a head for each column; another stack's names its library."""
    return {_key(column): _key(column) for column in _columns(matrix)}


def _key(column: Mapping[str, Any]) -> str:
    return " ".join([*([column["library"]] if "library" in column else []), column["release"]])


def _table(matrix: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = {probe["probe"]: dict(probe) for probe in matrix["probes"]}
    for column in _columns(matrix):
        for row in column["rows"]:
            word = _SHORT.get(row["outcome"], row["outcome"])
            rows[row["probe"]][_key(column)] = word + ("*" if row["substituted"] else "")
    return list(rows.values())
