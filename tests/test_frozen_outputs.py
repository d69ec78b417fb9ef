"""Frozen outputs: the questions, how they are answered, and the commands that score them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import tiny
from made_outputs import answers, made, tokenised

from labkit.cli import main
from labkit.errors import OutputsError
from labkit.experiments import outputs as frozen
from labkit.experiments._questions import FORMS, KINDS, Question, write_questions
from labkit.experiments._variants import VARIANTS, Variant
from labkit.files import find_root
from labkit.harness import greedy
from labkit.outputs import OUTPUTS_NAME, read_outputs, write_outputs
from labkit.record import identify, read_record
from labkit.scoring.normalisation import as_number


def test_the_questions_are_the_same_every_time() -> None:
    """A seed gives the same questions, with distinct ids, and another seed gives others."""
    questions = write_questions()

    assert questions == write_questions()
    assert questions != write_questions(seed=1)
    assert len({question.id for question in questions}) == len(questions) == 4 * len(KINDS)
    assert all(any(question.prompt.startswith(form) for form in FORMS) for question in questions)


def test_the_references_are_right() -> None:
    """Sums, differences and products in the questions give the reference when computed again."""
    signs = {"+": int.__add__, "times": int.__mul__}
    checked = 0
    for question in write_questions():
        found = re.search(r"What is ([0-9,]+) (\+|times) ([0-9]+)\?", question.prompt)
        if found:
            left, right = int(found[1].replace(",", "")), int(found[3])
            checked += 1

            assert as_number(question.reference) == signs[found[2]](left, right)

    assert checked == 12


def test_a_batch_is_answered_as_each_alone() -> None:
    """Decoding together gives each prompt its own continuation, up to its own end token."""
    backend = tiny.backend()
    prompts = [tiny.prompt_ids(backend, tokens=n, seed=n) for n in (5, 9, 12)]
    alone = [list(greedy(backend, prompt, steps=12).tokens) for prompt in prompts]
    end = alone[0][4]
    expected = [tokens[: tokens.index(end) + 1] if end in tokens else tokens for tokens in alone]

    together = frozen.greedy_batch(backend, prompts, cap=12, ends=frozenset([end]))

    assert together == expected


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Return a tiny checkpoint with a chat template."""
    folder = tiny.save(tmp_path / "model")
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = "{{ messages[0]['content'] }}"
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a variant that answers one question at a time."""
    monkeypatch.setitem(VARIANTS, "alone", Variant(label="one at a time", rows=1))
    return "alone"


QUESTIONS = [
    Question(id=str(n), cluster="one", prompt=text, reference="5")
    for n, text in enumerate(["hello", "the cat", "what is it"])
]


def test_outputs_are_made_once_and_gone_on_with(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second call takes every answer from the journal and writes the same file."""
    folder = tmp_path / "made"
    first = frozen.make_outputs("bfloat16", folder, model=checkpoint, questions=QUESTIONS, cap=6)
    read = read_outputs(folder)
    monkeypatch.setattr(frozen, "greedy_batch", None)  # calling it again would fail

    again = frozen.make_outputs("bfloat16", folder, model=checkpoint, questions=QUESTIONS, cap=6)

    assert first == again == read.sha256
    assert [item.prompt for item in read.items] == [question.prompt for question in QUESTIONS]
    assert all(0 < item.output_tokens <= 6 for item in read.items)
    assert {item.stop_reason for item in read.items} <= {"stop", "length"}
    record = read_record(folder)
    assert (record.status, record.artefacts[0].sha256) == ("finished", first)
    assert record.in_force("execution.dtype") == "bfloat16"
    assert identify(record).missing == ()


def test_a_killed_run_loses_no_answer(
    checkpoint: str, alone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was answered before a failure is not answered again."""
    answer, calls = frozen.greedy_batch, []

    def fail_at_the_second(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return answer(*arguments, **options)

    monkeypatch.setattr(frozen, "greedy_batch", fail_at_the_second)
    options = {"model": checkpoint, "questions": QUESTIONS, "cap": 4}
    with pytest.raises(KeyboardInterrupt):
        frozen.make_outputs(alone, tmp_path, **options)
    assert read_record(tmp_path).status == "failed"

    frozen.make_outputs(alone, tmp_path, **options)

    assert len(calls) == 2 + len(QUESTIONS) - 1


def test_an_unknown_variant_is_refused(tmp_path: Path) -> None:
    """A variant is one of the lab's."""
    with pytest.raises(OutputsError) as refused:
        frozen.make_outputs("int3", tmp_path)

    assert str(refused.value) == (
        "a variant must be one of float32, batches, bfloat16, int8; got 'int3'."
    )


# ---- commands -----------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Return files of outputs by name: all right, one lost, and half lost."""
    found = {}
    for name, wrong in {"right": 0, "one": 1, "half": 100}.items():
        items = [
            tokenised(
                ["so", " 6" if n < wrong else " 5"],
                id=str(n),
                cluster=str(n % 10),
                token_ids=(1, 6 if n < wrong else 5),
            )
            for n in range(200)
        ]
        file = tmp_path / f"{name}.jsonl"
        write_outputs(file, items)
        found[name] = str(file)
    return found


def test_score_prints_scores_lengths_and_spread(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The table holds every extractor; below it stand lengths and the spread."""
    status = main(["score", files["one"]])

    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert lines[1].split()[:4] == ["last_number", "1", "200", "199"]
    assert lines[-1] == (
        "spread over extractors: 99.50 points, strict_marker to math_verify; disputed items: 199"
    )


def test_score_finds_the_knee(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """With caps the knee and its confirmation decide the exit status, here of outputs of two."""
    arguments = ["score", files["right"], "--extractor", "last_number", "--caps", "1,2", "--json"]

    assert main(arguments) == 0

    knee = json.loads(capsys.readouterr().out)["knees"]["last_number"]
    assert (knee["cap"], knee["confirmed"]) == (2, True)


def test_score_without_a_plateau_is_no_knee(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sweep that ends where every output is cut has no plateau, and the status says so."""
    file = tmp_path / "long.jsonl"
    write_outputs(file, [tokenised(["so", " it", " is 5"], id=str(n)) for n in range(20)])

    status = main(["score", str(file), "--extractor", "last_number", "--caps", "1,2"])

    assert status == 1
    assert capsys.readouterr().out.splitlines()[-1] == (
        "last_number: no knee; even the largest cap truncates too many outputs to be a plateau"
    )


@pytest.mark.parametrize(
    ("after", "options", "status"),
    [
        pytest.param("right", ["--contract", "bitwise"], 0, id="the same tokens"),
        pytest.param("one", ["--contract", "bitwise"], 1, id="another token"),
        pytest.param("one", ["--max-net-loss", "5"], 0, id="one lost"),
        pytest.param("one", ["--max-net-loss", "5", "--max-lost", "0"], 1, id="none may be lost"),
        pytest.param("half", [], 1, id="half lost"),
        pytest.param("one", ["--max-net-loss", "1"], 2, id="too few to say"),
        pytest.param("right", ["--contract", "statistical"], 0, id="aggregates agree"),
        pytest.param("half", ["--contract", "statistical"], 1, id="aggregates differ"),
    ],
)
def test_impact_answers_by_its_status(
    files: dict[str, str], after: str, options: list[str], status: int
) -> None:
    """A contract that holds is 0, one that does not is 1, one that cannot be decided is 2."""
    assert main(["impact", files["right"], files[after], *options]) == status


def test_a_rule_that_is_named_twice_is_scored_once(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A rule has no spread with itself, so a second mention of it adds nothing."""
    twice = ["--extractor", "last_number"] * 2

    assert main(["score", files["right"], *twice]) == 0
    said = capsys.readouterr().out
    assert said.count("last_number") == 1
    assert "spread" not in said


@pytest.mark.parametrize(
    ("options", "status"),
    [
        pytest.param([], 2, id="silent"),
        pytest.param(["--independent-samples"], 0, id="declared"),
        pytest.param(["--independent-samples", "--margin", "0.5"], 2, id="too few to say"),
    ],
)
def test_impact_compares_samples_only_when_declared(
    options: list[str], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files without a question in common are compared under a declaration, and never silently."""
    both = answers("r" * 800)
    for name, half in (("before", both[:400]), ("after", both[400:])):
        write_outputs(tmp_path / name / OUTPUTS_NAME, half)
    files = [str(tmp_path / name) for name in ("before", "after")]

    assert main(["impact", *files, "--contract", "statistical", *options]) == status
    assert ("unpaired interval" in capsys.readouterr().out) == bool(options)


def test_impact_lists_the_items_that_changed(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The four cells, the text and each changed item are printed, limits read from a file."""
    limits = tmp_path / "limits.json"
    limits.write_text('{"max_lost": 1, "max_net_loss": 4}', encoding="utf-8")

    status = main(["impact", files["right"], files["one"], "--items", "--limits", str(limits)])

    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert lines[:4] == [
        "before  right after  wrong after",
        "right   199          1",
        "wrong   0            0",
        "text: 1 of 200 outputs differ, by their token ids",
    ]
    assert "0     0        5 (right)  6 (wrong)  lost" in lines
    assert lines[-2].startswith("task: holds. 1 of 200 items lost and 0 gained: net -0.50 points")
    assert lines[-1].startswith("not evaluated: artefact and execution: no record.json beside ")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(
            ["score", "FILE", "--extractor", "last"],
            "labkit score: unknown extractor 'last'. ",
            id="extractor",
        ),
        pytest.param(
            ["score", "gone.jsonl"],
            "labkit score: A file of outputs must exist; got path=gone.jsonl. Name one, "
            "or make it with `labkit outputs float32`.",
            id="no file",
        ),
        pytest.param(
            ["score", "FILE", "--caps", "a,b"],
            "labkit score: --caps must be whole numbers with commas between; got 'a,b'.",
            id="caps",
        ),
        pytest.param(
            ["score", "FILE", "--caps", ""],
            "labkit score: --caps must be whole numbers with commas between; got ''.",
            id="empty caps",
        ),
        pytest.param(
            ["score", "FILE", "--caps", "2"],
            "labkit score: a knee needs two caps at least, one to be near the other; got caps=[2].",
            id="one cap",
        ),
        pytest.param(
            ["score", "FILE", "--caps", "8", "--tolerance", "nan"],
            "labkit score: --tolerance must lie between 0 and 100; got tolerance=nan.",
            id="tolerance",
        ),
        pytest.param(
            ["score", "FILE", "--max-at-cap", "5"],
            "labkit score: Every option must have a use; got --max-at-cap=5.0, which a score "
            "without --caps does not read. Leave it out.",
            id="tolerance of nothing",
        ),
        pytest.param(
            ["impact", "FILE", "FILE", "--margin", "0"],
            "labkit impact: Every option must have a use; got --margin=0.0, which --contract task "
            "does not read. Leave it out.",
            id="margin of another contract",
        ),
        pytest.param(
            ["impact", "FILE", "FILE", "--contract", "statistical", "--max-lost", "0"],
            "labkit impact: Every option must have a use; got --max-lost=0, which --contract "
            "statistical does not read.",
            id="limit of another contract",
        ),
        pytest.param(
            ["impact", "FILE", "FILE", "--contract", "bitwise", "--limits", "gone.json"],
            "labkit impact: Every option must have a use; got --limits=gone.json, which --contract "
            "bitwise does not read.",
            id="limits of no contract",
        ),
        pytest.param(
            ["impact", "FILE", "FILE", "--contract", "statistical", "--items"],
            "labkit impact: Every option must have a use; got --items=True, which --contract "
            "statistical does not read.",
            id="items without pairs",
        ),
        pytest.param(
            ["impact", "FILE", "FILE", "--max-net-loss", "101"],
            "labkit impact: max_net_loss must be a number from 0 to 100; got max_net_loss=101.0.",
            id="more than all",
        ),
        pytest.param(
            ["outputs", "float32", "nosuch"],
            "labkit outputs: a variant must be one of float32, batches, bfloat16, int8; got "
            "'nosuch'.",
            id="second variant",
        ),
        pytest.param(
            ["impact", "FILE", "FILE", "--max-lost", "-1"],
            "labkit impact: max_lost must be a whole number of at least 0; got max_lost=-1.",
            id="limit",
        ),
        pytest.param(
            ["impact", "FILE", "FILE", "--limits", "gone.json"],
            "labkit impact: limits must be a readable JSON file; got path=gone.json",
            id="no limits",
        ),
        pytest.param(
            ["outputs", "int3"], "labkit outputs: a variant must be one of float32", id="variant"
        ),
    ],
)
def test_bad_input_is_status_2(
    files: dict[str, str],
    arguments: list[str],
    error: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What cannot be answered ends with status 2 and one message."""
    status = main([files["right"] if part == "FILE" else part for part in arguments])

    assert status == 2
    assert capsys.readouterr().err.startswith(error)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param('{"margin": 1, "margin": 9}', "the key 'margin' stands twice", id="twice"),
        pytest.param("[" * 9999, "its values are nested too deeply", id="deep"),
    ],
)
def test_limits_that_are_no_strict_json_are_refused(
    files: dict[str, str],
    text: str,
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file of limits that says two things, or too deep a one, is named."""
    file = tmp_path / "limits.json"
    file.write_text(text)

    status = main(["impact", files["right"], files["one"], "--limits", str(file)])

    assert status == 2
    assert capsys.readouterr().err == (
        f"labkit impact: limits must be a readable JSON file; got path={file}: {reason}.\n"
    )


@pytest.mark.parametrize("command", ["score", "impact"])
def test_the_example_of_the_help_works(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the help shows can be typed in the clone, and is answered without an error."""
    monkeypatch.chdir(find_root())
    with pytest.raises(SystemExit):
        main([command, "--help"])
    (example,) = re.findall(r"^example: labkit (.*)$", capsys.readouterr().out, re.MULTILINE)

    main(example.split())

    said = capsys.readouterr()
    assert (bool(said.out), said.err) == (True, "")


def test_outputs_refuses_a_variant_before_it_makes_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With one unknown name no variant is made; with none, each goes where --out says."""
    made_in = []
    monkeypatch.setattr(frozen, "make_outputs", lambda name, folder, **_: made_in.append(folder))
    monkeypatch.chdir(tmp_path)

    assert main(["outputs", "float32", "nosuch", "--out", "mine"]) == 2
    assert made_in == []
    assert main(["outputs", "float32", "--out", "mine"]) == 0
    assert made_in == [Path("mine/float32")]


def test_outputs_for_other_items_are_refused(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unpaired files end with status 2, under both paired contracts."""
    write_outputs(tmp_path / "other.jsonl", [made(id="x")])

    for contract in ("task", "bitwise"):
        status = main(
            ["impact", files["right"], str(tmp_path / "other.jsonl"), "--contract", contract]
        )

        assert status == 2
        assert "Paired outputs must answer the same items" in capsys.readouterr().err
