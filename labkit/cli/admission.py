"""`labkit admission`: decide a request before any work."""

from __future__ import annotations

import argparse
from pathlib import Path

from labkit.cli._common import Subparsers, add_command, add_json_option, print_json, printable_lines
from labkit.errors import EXIT_DOES_NOT_HOLD, EXIT_HOLDS, RequestError


def add_to(subparsers: Subparsers) -> None:
    """Add the subcommand."""
    parser = add_command(
        subparsers,
        "admission",
        summary="Decide a request before any work, with every reason; or show the twelve cases.",
        example="labkit admission --spec config.json --request request.json --facts facts.json",
    )
    parser.add_argument("--spec", metavar="CONFIG", help="the model's config.json or its folder")
    parser.add_argument(
        "--request", metavar="FILE", help="the request, as a JSON object in either shape"
    )
    parser.add_argument(
        "--shape",
        choices=("labkit", "openai"),
        help="the shape that the request must have (default: seen by its fields)",
    )
    parser.add_argument(
        "--prompt-tokens", type=int, metavar="N", help="length of a chat request's rendered prompt"
    )
    parser.add_argument("--facts", metavar="FILE", help="what is known of the runtime, as JSON")
    parser.add_argument(
        "--run", metavar="FOLDER", help="folder that keeps the twelve cases' results"
    )
    add_json_option(parser)
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Decide one request, or the twelve cases."""
    given = (args.spec, args.request, args.facts, args.shape, args.prompt_tokens)
    if all(option is None for option in given):
        return _show_cases(args)
    if not (args.spec and args.request):
        raise RequestError(
            "A decision must have a config and a request; got "
            f"--spec={args.spec!r}, --request={args.request!r}. Name both, or none for the cases."
        )
    if args.run:
        raise RequestError("--run keeps the twelve cases; leave it out to decide one request.")
    return _decide(args)


def _decide(args: argparse.Namespace) -> int:
    # not through `labkit.experiments`, whose runs and records take longer to load than to decide
    from labkit.admission import RuntimeFacts, admit
    from labkit.rules._files import read_facts, read_request_file
    from labkit.spec import fingerprint, read_config_file

    spec = fingerprint(read_config_file(args.spec))
    request = read_request_file(
        Path(args.request), shape=args.shape, prompt_tokens=args.prompt_tokens
    )
    facts = read_facts(Path(args.facts)) if args.facts else RuntimeFacts()
    decision = admit(spec, request, facts)
    if args.json:
        print_json(decision.to_json())
    else:
        print(printable_lines(str(decision)))
    return EXIT_HOLDS if decision.admitted else EXIT_DOES_NOT_HOLD


def _show_cases(args: argparse.Namespace) -> int:
    from labkit.experiments import admission

    section = admission.run(run_dir=args.run)
    if args.json:
        print_json(section)
    else:
        for row in section["rows"]:
            print(f"{row['number']:>2}  {row['outcome']:<6}  {row['title']}")
            for reason in row["reasons"]:
                print(f"            {reason['rule']}: {reason['message']}")
    as_expected = all(row["outcome"] == row["expected"] for row in section["rows"])
    return EXIT_HOLDS if as_expected else EXIT_DOES_NOT_HOLD
