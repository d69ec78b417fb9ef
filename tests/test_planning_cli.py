"""`labkit capacity` and `labkit cost`: what they print, and how they end."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from support import ROOT, read_cases

from labkit.cli import build_parser, main


@pytest.fixture(autouse=True)
def in_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let relative paths start at the clone."""
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("case", read_cases("planning_commands.json"), ids=lambda case: case["why"])
def test_a_command_prints_and_ends_as_stated(
    case: dict, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command has its status, its table and its message, compared whole."""
    file = tmp_path / "lengths.jsonl"
    file.write_text("".join(f'{{"tokens": {length}}}\n' for length in case.get("lengths", ())))
    arguments = [str(file) if word == "LENGTHS" else word for word in case["arguments"]]
    status = main(arguments)
    said = capsys.readouterr()

    assert status == case["status"]
    assert said.out == case.get("out", said.out)
    assert said.err == case.get("error", "")


@pytest.mark.parametrize(
    ("arguments", "holds", "label"),
    [
        (["capacity", "--pool-tokens", "100", "--length", "8"], True, "derived"),
        (["cost", "--price", "4", "--throughput", "9", "--tokens", "output"], None, "estimated"),
    ],
)
def test_json_says_what_holds_and_how_it_is_known(
    arguments: list[str], holds: object, label: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The JSON has the label of each row, and whether the wanted holds where it was asked."""
    assert main([*arguments, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)

    assert said.get("holds", said["rows"][0].get("holds")) is holds
    assert {row["label"] for row in said["rows"]} == {label}


@pytest.mark.parametrize("command", ["capacity", "cost"])
def test_help_has_an_example_that_runs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The example that the help ends with is a command that holds."""
    with pytest.raises(SystemExit):
        build_parser().parse_args([command, "--help"])
    _, example = capsys.readouterr().out.split("example: ")

    assert main(shlex.split(example)[1:]) == 0
