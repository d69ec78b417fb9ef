"""The command line: light, honest in its status, and never a traceback for a caller's mistake."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, Python, read_cases

from labkit.cli import build_parser, main
from labkit.errors import LabError

COMMANDS = (
    "fingerprints",
    "preservation",
    "fallbacks",
    "admission",
    "facts",
    "outputs",
    "score",
    "impact",
    "chapter",
    "book",
    "models",
)
LOADED = """
import sys
try:
    {code}
finally:
    heavy = {{"torch", "transformers", "pandas", "numpy", "altair", "papermill"}}
    print("LOADED", sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


def loaded_by(python: Python, code: str) -> list[str]:
    """Return which heavy packages a piece of code loads."""
    done = python(LOADED.format(code=code), cwd=ROOT)
    match = re.search(r"LOADED (\[.*\])", done.stderr)
    assert match, done.stderr
    return json.loads(match[1].replace("'", '"'))


def lab(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    command = [sys.executable, "-m", "labkit", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False, **options
    )


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import labkit; dir(labkit); labkit.admit; labkit.fingerprint", id="import"),
        pytest.param("from labkit.cli import main; main(['admission'])", id="admission"),
        pytest.param("from labkit.cli import main; main(['fingerprints'])", id="fingerprints"),
        pytest.param("from labkit.cli import main; main(['models', 'list'])", id="models"),
        pytest.param("from labkit.cli import main; main(['--help'])", id="help"),
        pytest.param("import labkit.experiments.admission", id="experiments"),
        pytest.param("import labkit.experiments.fallbacks", id="fallbacks"),
    ],
)
def test_what_decides_and_reads_loads_nothing_heavy(python: Python, code: str) -> None:
    """Deciding, reading and listing load neither torch nor pandas nor what those bring."""
    assert loaded_by(python, code) == []


def test_the_command_line_starts_without_the_work(python: Python) -> None:
    """All subcommands are there before dataclasses, or a room that computes, is loaded."""
    code = "import sys, labkit.cli; print('dataclasses' in sys.modules, *sys.modules)"
    dataclasses, *modules = python(code, cwd=ROOT).stdout.split()
    rooms = {name for name in modules if re.fullmatch(r"labkit\.\w+", name)}

    assert dataclasses == "False"
    assert rooms == {"labkit.cli", "labkit.errors", "labkit.files"}


def test_the_check_of_what_is_loaded_can_fail(python: Python) -> None:
    """The same check sees numpy when something loads it."""
    assert "numpy" in loaded_by(python, "import numpy")


@pytest.mark.parametrize("case", read_cases("cli_refused.json"), ids=lambda case: case["why"])
def test_a_callers_mistake_is_one_message(case: dict) -> None:
    """Bad input ends with status 2 and one message, compared whole where it is ours."""
    done = lab(*case["arguments"])

    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr
    assert case.get("error_has", "") in done.stderr
    assert done.stderr == case.get("error", done.stderr)
    assert done.stdout == ""


def test_a_broken_file_is_named_with_its_place(tmp_path: Path) -> None:
    """A request that is no JSON is refused by its name, line and column."""
    (tmp_path / "request.json").write_text('{"prompt_tokens": 3,\n "max_new_tokens" 4}')
    done = lab(
        "admission",
        "--spec",
        "data/configs/gpt2.json",
        "--request",
        str(tmp_path / "request.json"),
    )

    assert done.returncode == 2
    assert "request.json must be JSON; it stops making sense at line 2, column 19" in done.stderr


def test_a_rejected_request_ends_with_status_one() -> None:
    """1200 tokens on gpt2 with a temperature but no sampling are rejected with both reasons."""
    done = lab(
        "admission",
        "--spec",
        "data/configs/gpt2.json",
        "--request",
        "data/admission/request.json",
        "--facts",
        "data/admission/facts.json",
    )

    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("reject\n")
    assert "context: 1208 tokens exceed the 1024 positions of gpt2" in done.stdout
    assert "sampling: " in done.stdout


def test_a_request_that_fits_ends_with_status_zero(tmp_path: Path) -> None:
    """A short greedy request is admitted, and the JSON says so."""
    (tmp_path / "request.json").write_text('{"prompt_tokens": 10, "max_new_tokens": 4}')
    done = lab(
        "admission",
        "--spec",
        "data/configs/gpt2.json",
        "--request",
        str(tmp_path / "request.json"),
        "--facts",
        "data/admission/facts.json",
        "--json",
    )

    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["admitted"] is True


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        pytest.param({}, 0, "unknown: how many tokens the prompt has", id="read"),
        pytest.param({"max_tokens": 2000}, 1, "2000 new tokens alone exceed", id="rejected"),
        pytest.param({"temprature": 1}, 2, "did you mean temperature?", id="unknown-field"),
    ],
)
def test_a_chat_request_is_read_from_the_shell(
    tmp_path: Path, changes: dict, status: int, says: str
) -> None:
    """An OpenAI chat is seen by its fields; what it may not hold is refused by name."""
    chat = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 8, "temperature": 0}
    (tmp_path / "chat.json").write_text(json.dumps(chat | changes))
    files = ["--spec", "data/configs/gpt2.json", "--request", str(tmp_path / "chat.json")]
    done = lab("admission", *files)

    assert (done.returncode, says in done.stdout + done.stderr) == (status, True), done


def test_the_twelve_cases_come_out_as_expected(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments the twelve cases are decided, each as its file expects."""
    assert main(["admission", "--json"]) == 0

    section = json.loads(capsys.readouterr().out)
    assert section["summary"]["cases"] == section["summary"]["as_expected"] == 12


def test_a_case_that_comes_out_otherwise_ends_with_status_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The status tells when a case is not decided as expected."""
    from labkit.experiments import admission

    row = {"number": 1, "outcome": "accept", "expected": "reject", "title": "t", "reasons": []}
    monkeypatch.setattr(admission, "run", lambda **_: {"rows": [row]})

    assert main(["admission"]) == 1


def test_the_ten_configs_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a path the ten configurations are printed, as a table and as JSON."""
    assert main(["fingerprints"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 11

    assert main(["fingerprints", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 10


def test_a_key_that_nothing_reads_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beneath the table stands each key of a config that nothing here reads."""
    stored = json.loads((ROOT / "data/configs/gpt2.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({**stored, "frob": 1, "quux": 2}))

    assert main(["fingerprints", str(tmp_path / "config.json")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{tmp_path.name}: not read: frob, quux"


def test_a_config_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Control characters of a config and of a path are escaped, in notes and in messages."""
    stored = json.loads((ROOT / "data/configs/gpt2.json").read_text(encoding="utf-8"))
    strange = {**stored, "model_type": "gpt2\x1b[31m", "frob\x1b[31m": 1}
    (tmp_path / "config.json").write_text(json.dumps(strange))

    assert main(["fingerprints", str(tmp_path / "config.json")]) == 0
    assert main(["fingerprints", "gone\x1b[31m.json"]) == 2
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert r"frob\x1b[31m" in said.out
    assert r"gone\x1b[31m.json" in said.err


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command has a help text with an example of itself, and takes --json."""
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])

    text = capsys.readouterr().out
    assert stop.value.code == 0
    assert f"example: labkit {command}" in text
    assert "--json" in text or command == "models"


def test_the_book_says_which_run_it_shows_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """The help names the reader's own last finished run before the published one."""
    with pytest.raises(SystemExit):
        main(["book", "--help"])

    help_text = " ".join(capsys.readouterr().out.split())
    assert "default: your last finished one, else the published one" in help_text


def test_each_example_is_a_command_that_parses(capsys: pytest.CaptureFixture[str]) -> None:
    """The examples of the help texts are accepted by the parser itself."""
    parser = build_parser()
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        example = re.search(r"^example: labkit (.+)$", capsys.readouterr().out, re.MULTILINE)
        assert example
        parser.parse_args(example[1].split())


def test_no_parser_guesses_an_option() -> None:
    """The beginning of an option is no option, whichever command it is given to."""
    parsers = [build_parser()]
    for parser in parsers:
        for action in parser._actions:
            # what argparse keeps of subcommands has no public name
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()

    assert len(parsers) > len(COMMANDS)
    assert [parser.prog for parser in parsers if parser.allow_abbrev] == []


@pytest.mark.parametrize(
    ("arguments", "goes_on"),
    [
        ("chapter", True),
        ("outputs float32", True),
        ("preservation --run a", True),
        ("preservation --out a", True),
        ("fallbacks --matrix", True),
        ("fallbacks --release 5.0.0", True),
        ("fallbacks --matrix --again", False),
        ("fallbacks", False),
        ("preservation", False),
        ("fingerprints --prove", False),
    ],
)
def test_an_interrupt_says_whether_it_goes_on(
    arguments: str,
    goes_on: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C ends with 130, and only what keeps its finished steps says that it goes on."""
    name, *_ = arguments.split()
    module = importlib.import_module(f"labkit.cli.{name}")
    executor = "execute_chapter" if name == "chapter" else "execute"

    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, executor, interrupt)
    assert main(arguments.split()) == 130
    said = capsys.readouterr().err
    assert said.startswith(f"labkit {name}: interrupted")
    assert ("Call the same command again and it goes on." in said) is goes_on


def test_a_fault_of_the_lab_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unforeseen exception ends with 2, not 1, with its traceback and whose fault it is."""
    _execute_with(monkeypatch, ZeroDivisionError("by zero"))

    assert main(["models", "list"]) == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "ZeroDivisionError: by zero" in said
    assert said.splitlines()[-1].startswith("labkit models: this is a fault of the lab")


def test_an_error_on_purpose_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any error of the lab's own becomes one line and status 2."""
    _execute_with(monkeypatch, LabError("x must hold; got x=1. Do y."))

    assert main(["models", "list"]) == 2
    assert capsys.readouterr().err == "labkit models: x must hold; got x=1. Do y.\n"


def _execute_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the command end with an error."""
    from labkit.cli import models

    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(models, "list_models", fail)


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    """Output into a pipe that is closed early ends quietly."""
    code = "for i in range(3000): print('x' * 100)"
    program = (
        "import labkit.cli as c, labkit.cli.models as m\n"
        f"def flood(args):\n    {code}\n    return 0\n"
        "m.list_models = flood\nraise SystemExit(c.main(['models', 'list']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdout.readline()
        writer.stdout.close()
        error = writer.stderr.read()

    assert writer.returncode == 141
    assert error == ""


def test_a_polite_kill_is_an_interrupt() -> None:
    """SIGTERM ends a command as Ctrl-C does."""
    program = (
        "import time, labkit.cli as c, labkit.cli.models as m\n"
        "def wait(args):\n    print('waiting', flush=True)\n    time.sleep(60)\n"
        "m.list_models = wait\nraise SystemExit(c.main(['models', 'list']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stdout is not None
        waiting.stdout.readline()
        os.kill(waiting.pid, signal.SIGTERM)
        _, error = waiting.communicate(timeout=30)

    assert waiting.returncode == 130
    assert "interrupted" in error
