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
    assert said.out.endswith(case.get("ends", ""))
    assert said.err == case.get("error", "")


@pytest.mark.parametrize("mode", [["--length", "8192"], ["--lengths", "LENGTHS"]])
def test_a_recurrent_model_without_its_state_is_open(
    mode: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that keeps nothing but states has no bound until a state's bytes are given."""
    config, lengths = tmp_path / "config.json", tmp_path / "lengths.jsonl"
    config.write_text('{"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2}')
    lengths.write_text('{"tokens": 8192}\n')
    mode = [str(lengths) if word == "LENGTHS" else word for word in mode]
    command = ["capacity", "--pool-bytes", "1000", "--spec", str(config), *mode]
    statuses = [main(command), main([*command, "--state-bytes", "0"])]
    said = capsys.readouterr().err.splitlines()

    assert statuses == [2, 2]
    assert said == [
        "labkit capacity: Whether 1 sequences fit must follow from what is known; it does not, "
        "for the reason beside the bound. Measure the pool in tokens, or give --state-bytes of at "
        "least 1.",
        "labkit capacity: `state_bytes` must be a whole number from 1 to 1e+18; got state_bytes=0.",
    ]
    assert main([*command, "--state-bytes", "1000"]) == 0


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
