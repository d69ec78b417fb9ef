"""`labkit models`: the models that the lab fetches and converts itself."""

from __future__ import annotations

import argparse

from labkit.cli._common import (
    Subparsers,
    add_command,
    add_json_option,
    print_json,
    print_table,
    say,
)
from labkit.errors import EXIT_HOLDS

_COLUMNS = {
    "name": "model",
    "fetched": "fetched",
    "licence": "licence",
    "space_bytes": "disk needed, B",
    "requirements": "comes from",
}


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand and its four actions."""
    parser = add_command(
        subparsers,
        "models",
        summary="List, fetch, find or remove the models that the lab can fetch.",
        example="labkit models fetch smollm2",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    parser.set_defaults(execute=list_models, json=False)
    for name, function, summary in (
        ("list", list_models, "Show what can be fetched and what is."),
        ("fetch", fetch_model, "Download, check and convert a model, once."),
        ("path", show_path, "Print the folder of a fetched model."),
        ("remove", remove_model, "Delete a fetched model."),
    ):
        example = f"labkit models {name}{'' if name == 'list' else ' smollm2'}"
        action = add_command(actions, name, summary=summary, example=example)
        if name != "list":
            action.add_argument("name", metavar="NAME", help="as `labkit models list` shows it")
        if name == "fetch":
            action.add_argument(
                "--accept-licence",
                dest="accepted",
                metavar="LICENCE",
                help="accept the terms of a model that has terms of its own, such as gemma",
            )
        add_json_option(action)
        action.set_defaults(execute=function)


def list_models(args: argparse.Namespace) -> int:
    """Print the catalogue."""
    from labkit import models

    rows = [
        {
            "name": entry.name,
            "fetched": models.is_fetched(entry.name),
            "licence": entry.licence,
            "space_bytes": entry.space_bytes,
            "requirements": entry.requirements,
        }
        for entry in models.CATALOGUE.values()
    ]
    if args.json:
        print_json(rows)
    else:
        print_table(rows, _COLUMNS)
    return EXIT_HOLDS


def fetch_model(args: argparse.Namespace) -> int:
    """Fetch a model, unless it stands already."""
    from labkit import models

    return _show(args, str(models.fetch(args.name, accepted=args.accepted, say=say)))


def show_path(args: argparse.Namespace) -> int:
    """Print where a fetched model lies."""
    from labkit import models
    from labkit.errors import ModelError

    folder = models.model_folder(args.name)
    if not models.is_fetched(args.name):
        raise ModelError(
            f"The model must be fetched; got model={args.name!r}, which is not. "
            f"Call `labkit models fetch {args.name}`."
        )
    return _show(args, str(folder))


def remove_model(args: argparse.Namespace) -> int:
    """Delete a fetched model; one that is not there is no fault."""
    from labkit import models

    removed = models.remove(args.name)
    if args.json:
        print_json({"name": args.name, "removed": removed})
    else:
        print(f"{args.name}: {'removed' if removed else 'was not fetched'}")
    return EXIT_HOLDS


def _show(args: argparse.Namespace, folder: str) -> int:
    if args.json:
        print_json({"name": args.name, "path": folder})
    else:
        print(folder)
    return EXIT_HOLDS
