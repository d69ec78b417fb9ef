"""What a user hands in as JSON: no command takes a key that stands twice, or a number that is none.

Python's own reader keeps the last of two values and reads NaN; both would decide in silence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_outputs import made
from test_audit import make_run

from labkit.charts import load_reference
from labkit.cli import main
from labkit.errors import LabError
from labkit.experiments._own_prompts import read_prompts
from labkit.experiments.releases import load_matrix
from labkit.outputs import OUTPUTS_NAME, write_outputs
from labkit.planning import load_printed

ROOT = Path(__file__).parent.parent
RUN = str(ROOT / "results" / "published-cpu")
CONFIG = str(ROOT / "data" / "configs" / "llama-3.2-1b.json")
COMMANDS = {
    "limits": ["impact", "OUTPUTS", "OUTPUTS", "--limits", "FILE"],
    "outputs": ["score", "FILE"],
    "lengths": ["capacity", "--pool-tokens", "4096", "--lengths", "FILE"],
    "verdicts": ["record", "diff", RUN, RUN, "--verdicts", "FILE"],
    "record": ["record", "show", "FILE"],
    "request": ["admission", "--spec", CONFIG, "--request", "FILE"],
    "facts": ["admission", "--spec", CONFIG, "--request", "REQUEST", "--facts", "FILE"],
    "prompts": ["preservation", "--prompts", "FILE"],
}
FAULTS = {
    '{"margin": 1, "margin": 2}': "the key 'margin' stands twice",
    '{"margin": NaN}': "NaN is not a JSON number",
    '{"margin": -Infinity}': "-Infinity is not a JSON number",
}


@pytest.mark.parametrize(("text", "fault"), FAULTS.items(), ids=["twice", "nan", "infinity"])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_refuses_a_file_that_is_no_strict_json(
    command: list[str], text: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each file that a command reads ends it with 2, named with the key or the value."""
    file, request = tmp_path / "given.json", tmp_path / "request.json"
    file.write_text(f"{text}\n", encoding="utf-8")
    request.write_text(json.dumps({"prompt_tokens": 8, "max_new_tokens": 8}), encoding="utf-8")
    write_outputs(tmp_path / OUTPUTS_NAME, [made(id="a")])
    places = {"FILE": file, "REQUEST": request, "OUTPUTS": tmp_path}

    assert main([str(places.get(word, word)) for word in command]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert file.name in said.err
    assert fault in said.err


def test_a_replayed_output_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an audit reads of a replay bundle is as strict, and names the file and the line."""
    folder = make_run(tmp_path / "run")
    lines = folder / "replay" / "outputs.jsonl"
    lines.write_text(f'{lines.read_text()}{{"name": "b", "name": "c"}}\n')

    assert main(["record", "gates", str(folder)]) == 2
    assert capsys.readouterr().err == (
        f"labkit record: Outputs must be lines of JSON; got path={lines}: "
        "line 2: the key 'name' stands twice.\n"
    )


@pytest.mark.parametrize("read", [load_printed, load_reference, load_matrix])
def test_a_reader_refuses_a_key_that_stands_twice(read: Any, tmp_path: Path) -> None:
    """What reads a file without a command of its own refuses it with its name and the key."""
    file = tmp_path / "matrix.json"
    file.write_text('{"figures": [], "figures": []}', encoding="utf-8")

    with pytest.raises(LabError, match=r"matrix\.json: the key 'figures' stands twice"):
        read(tmp_path if read is load_matrix else file)


def test_a_prompt_may_hold_a_line_separator(tmp_path: Path) -> None:
    """A prompt with U+2028 inside is one prompt, since JSON does not end there."""
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({"text": "one\u2028two"}, ensure_ascii=False), encoding="utf-8")

    assert [prompt.text for prompt in read_prompts(file)] == ["one\u2028two"]
