"""Tests of the probes: the computed outcome, the recorded evidence, the registry."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import read_cases

from labkit import probes
from labkit.errors import ModelError, ProbeError
from labkit.probes import Evidence, ProbeContext, attempt, judge, run_probe, run_probes
from labkit.probes._capture import TEXT_LIMIT_CHARS, clean_text
from labkit.probes.stand_ins import random_ids, tiny_llama, tiny_tokenizer

CLOSED = logging.getLogger("a_library_that_keeps_its_records")


def _raises() -> None:
    raise IndexError("index out of range")


def _warns_then_raises() -> None:
    warnings.warn("careful", stacklevel=1)
    _raises()


def _logs_on_a_closed_logger() -> None:
    CLOSED.propagate = False
    CLOSED.warning("not as asked")


def _says_once() -> None:
    from transformers.utils import logging as library_logging

    library_logging.get_logger("transformers.planted").warning_once("said once a process")


PLANTED: dict[str, Callable[[], Any]] = {
    "returns": lambda: "a plausible value",
    "raises": _raises,
    "warns_then_raises": _warns_then_raises,
    "warns": lambda: warnings.warn("careful", stacklevel=1),
    "deprecates": lambda: warnings.warn("old name", DeprecationWarning, stacklevel=1),
    "logs_a_warning": lambda: logging.getLogger("planted").warning("not as asked"),
    "logs_on_a_closed_logger": _logs_on_a_closed_logger,
    "logs_info": lambda: logging.getLogger("planted").info("all is well"),
    "says_once": _says_once,
    "prints_to_stderr": lambda: print("note", file=sys.stderr),
    "writes_to_descriptor_2": lambda: os.write(2, b"note"),
    "prints_to_stdout": lambda: print("note"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c["name"]) for c in read_cases("probe_evidence.json")]
)
def test_outcome_is_computed_from_what_was_said_and_measured(case: dict[str, Any]) -> None:
    """Each planted behaviour gets its outcome, twice over, however the process began."""
    for _ in range(2):
        control = PLANTED[case["control"]] if case["control"] else None
        evidence = Evidence(
            attempt=attempt(PLANTED[case["call"]]),
            control=None if control is None else attempt(control),
            did_it=case["measured"],
        )
        row = judge(evidence, probe="planted", number=None, asked="something")

        assert (row.outcome, row.did_it, row.substituted) == (
            case["outcome"],
            case["did_it"],
            case["substituted"],
        )


def test_background_is_kept_beside_what_was_said() -> None:
    """What the control said as well is not lost: it stands in the evidence as background."""
    said = attempt(PLANTED["warns"])
    row = judge(Evidence(attempt=said, control=said), probe="planted", number=None, asked="x")

    assert [message["text"] for message in row.evidence["background"]] == ["careful"]
    assert row.said == ""


def test_what_is_not_askable_is_neither_done_nor_substituted() -> None:
    """A probe without an attempt is not askable, with its reason, and judges nothing."""
    row = judge(probes.not_askable("no such device"), probe="planted", number=1, asked="x")

    assert (row.outcome, row.did_it, row.substituted) == ("not_askable", None, False)
    assert row.why_not_askable == "no such device"


def test_recording_restores_loggers_and_descriptors() -> None:
    """After a recorded call handlers, levels and standard error are as they were."""
    CLOSED.setLevel(logging.ERROR)
    before = (list(logging.root.handlers), CLOSED.level, sys.stderr, os.fstat(2).st_ino)
    said = attempt(PLANTED["logs_on_a_closed_logger"])
    after = (list(logging.root.handlers), CLOSED.level, sys.stderr, os.fstat(2).st_ino)
    CLOSED.setLevel(logging.NOTSET)

    assert said.said == "not as asked"
    assert before == after


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        pytest.param("in /home/me/lab/file.py: bad", "in <path>/file.py: bad", id="path"),
        pytest.param("see https://a.org/b/c.html", "see https://a.org/b/c.html", id="url"),
        pytest.param("<x at 0x7f00aa11bb22>", "<x at 0x…>", id="address"),
        pytest.param("kept at /tmp/tmpab12cd3_", "kept at <path>/tmp…", id="random-name"),
        pytest.param("and/or 3/4", "and/or 3/4", id="slash"),
    ],
)
def test_kept_text_names_no_machine(text: str, kept: str) -> None:
    """Paths, random names and addresses go; links and plain slashes stay."""
    assert clean_text(text) == kept


def test_long_text_is_trimmed_and_says_so() -> None:
    """A long message keeps its beginning and the number of characters cut."""
    assert clean_text("x" * (TEXT_LIMIT_CHARS + 7)).endswith("… (7 more characters)")


def test_a_fault_in_measuring_code_is_not_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that breaks outside its asked call is not askable and names the fault."""

    def broken(context: ProbeContext) -> Evidence:
        raise ZeroDivisionError("my own mistake")

    planted = probes.Probe(id="planted", number=None, asks="x", needs=(), function=broken)
    monkeypatch.setitem(probes.REGISTRY, "planted", planted)
    row = run_probe("planted")

    assert row.outcome == "not_askable"
    assert row.why_not_askable == (
        "the probe's own measuring code failed: ZeroDivisionError: my own mistake"
    )
    assert row.evidence["measured"] == {"failed_in": "test_probes.py:broken"}


def test_a_model_that_cannot_be_loaded_is_the_callers_error() -> None:
    """An error of the lab's own, from loading, is passed on and not kept as evidence."""

    def load() -> Any:
        raise ModelError("no such model")

    context = ProbeContext(load_model=load, load_tokenizer=tiny_tokenizer)

    with pytest.raises(ModelError, match="no such model"):
        run_probe("right_padding_in_a_batch", context)


def test_the_table_has_thirteen_probes_and_names_the_source() -> None:
    """The numbers run from 1 to 13 and every one of them stands in the source's table."""
    source = probes.read_probe_data("source")
    numbered = probes.list_probes("thirteen")

    assert [p.number for p in numbered] == list(range(1, 14))
    assert [(r["number"], r["probe"]) for r in source["probes"]] == [
        (p.number, p.id) for p in numbered
    ]


def test_the_source_rows_add_up_to_the_source_counts() -> None:
    """The source's outcomes by row give the counts that its text states."""
    source = probes.read_probe_data("source")
    outcomes = [row["outcome"] for row in source["probes"]]
    silent = [row for row in source["probes"] if row["outcome"] == "silent"]
    counted = {name: outcomes.count(name) for name in ("refused", "warned", "silent")}
    counted["silent_substitutions"] = sum(row["did_it"] is False for row in silent)

    assert counted == source["counts"]


def test_an_unknown_probe_is_refused_with_near_names() -> None:
    """A misspelt name is answered with the names it may have meant, before anything runs."""
    with pytest.raises(ProbeError) as refusal:
        run_probes(["system_message_acepted"])

    assert str(refusal.value).startswith(
        "A probe must be one of the registered ones; got probe='system_message_acepted'. "
        "Did you mean system_message_accepted"
    )


@pytest.mark.parametrize(
    ("probe_id", "number"),
    [
        pytest.param("chat_template_missing", None, id="id"),
        pytest.param("another", 12, id="number"),
    ],
)
def test_a_taken_name_or_number_is_refused(probe_id: str, number: int | None) -> None:
    """No probe can take another's place, by name or by number."""
    with pytest.raises(ProbeError, match="taken by 'chat_template_missing'"):
        probes.probe(probe_id, number=number, asks="x")(lambda context: Evidence())


def test_a_probe_is_found_by_its_number() -> None:
    """The number of a row serves as its name."""
    assert probes.find_probe("12").id == "chat_template_missing"


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c["probe"]) for c in read_cases("probe_outcomes.json")]
)
def test_probe_on_stand_ins(case: dict[str, Any]) -> None:
    """Each cheap probe gives the known outcome, the same one again, and evidence as JSON."""
    first, second = (run_probe(case["probe"]) for _ in range(2))

    assert (first.outcome, first.did_it) == (case["outcome"], case["did_it"])
    assert (first.outcome, first.did_it, first.said) == (second.outcome, second.did_it, second.said)
    assert json.loads(json.dumps(first.to_json(), allow_nan=False)) == first.to_json()


@pytest.mark.slow
def test_static_cache_with_the_compiler_hidden() -> None:
    """On a CPU the static cache does not need the compiler; on the forced path it does."""
    plain, forced = run_probes(
        ["static_cache_compilation_impossible", "static_cache_forced_compilation"]
    )

    assert (plain.outcome, plain.did_it) == ("silent", True)
    assert plain.evidence["measured"]["compiling_a_small_function"] is not None
    assert (forced.outcome, forced.did_it) == ("refused", False)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_slow_dtype_is_judged_by_its_measured_time(dtype: str) -> None:
    """The outcome follows from the slowdown in the evidence, whichever way the machine goes."""
    row = run_probe(f"{dtype}_on_slow_hardware")
    measured = row.evidence["measured"]
    slow = measured["slowdown"] >= measured["half_speed"]

    assert row.did_it is (None if row.outcome == "not_askable" else not slow)
    assert not (slow and row.outcome == "not_askable")


def test_a_repaired_stack_is_seen_to_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the stack does divide by the temperature, the probe sees it: it reads the effect."""
    from labkit.probes import _subjects

    generate = _subjects.Subject.generate

    def divided(self: Any, ids: Any, *, temperature: float | None = None, **options: Any) -> Any:
        output = generate(self, ids, **options)
        if temperature is not None:
            output.scores = tuple(step / temperature for step in output.logits)
        return output

    monkeypatch.setattr(_subjects.Subject, "generate", divided)
    row = run_probe("temperature_without_sampling")

    assert (row.outcome, row.did_it, row.substituted) == ("silent", True, False)


def test_given_model_and_tokenizer_are_used() -> None:
    """With a model and a tokenizer in the context no stand-in is named, and each loads once."""
    loaded: list[str] = []

    def load_model() -> Any:
        loaded.append("model")
        return tiny_llama()

    context = ProbeContext(load_model=load_model, load_tokenizer=tiny_tokenizer, model_name="given")
    rows = run_probes(["temperature_without_sampling", "right_padding_in_a_batch"], context)

    assert [row.stand_in for row in rows] == [None, None]
    assert [row.did_it for row in rows] == [False, False]
    assert loaded == ["model"]


def test_default_system_message_is_found_in_the_given_template() -> None:
    """A template that writes a system message by itself is a silent substitution."""
    cases = {case["name"]: case for case in read_cases("chat_templates.json")}
    template = cases["default"]["template"]
    context = ProbeContext(load_tokenizer=lambda: tiny_tokenizer(chat_template=template))
    row = run_probe("default_system_message", context)

    assert (row.outcome, row.substituted) == ("silent", True)
    assert row.evidence["measured"]["inserted"] == "Be kind."


def test_a_runtime_that_keeps_sinks_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sinks count where the first token is in reach and a later one behind the window is not."""
    import torch

    from labkit.probes import windows

    def scores(model: Any, ids: Any) -> Any:
        del model
        return torch.cat([ids[0, :1], ids[0, -4:]])

    monkeypatch.setattr(windows, "scores_with_sinks", scores)
    assert windows.keeps_sinks(tiny_llama()) is True

    monkeypatch.setattr(windows, "scores_with_sinks", lambda model, ids: ids)
    assert windows.keeps_sinks(tiny_llama()) is False


def test_a_new_file_of_probes_is_found_without_registration() -> None:
    """Every module of the room is imported, so a probe in a new file needs no list."""
    files = {path.stem for path in Path(probes.__file__).parent.glob("[!_]*.py")}

    assert files <= {name.removeprefix("labkit.probes.") for name in sys.modules}


def test_summary_counts_the_thirteen_only() -> None:
    """Probes beyond the thirteen, and what was not askable, are not among the asked."""
    known = {"attempt": attempt(PLANTED["returns"]), "did_it": False}
    rows = [
        judge(Evidence(**known), probe="one", number=1, asked="x"),
        judge(probes.not_askable("no device"), probe="two", number=2, asked="x"),
        judge(Evidence(**known), probe="three", number=None, asked="x"),
    ]

    assert probes.summarise_probes(rows) == {
        "refused": 0,
        "warned": 0,
        "silent": 1,
        "not_askable": 1,
        "asked": 1,
        "substituted": 1,
        "silent_substitutions": 1,
    }


def test_stand_ins_are_seeded_and_leave_the_random_state_alone() -> None:
    """A stand-in is the same each time, and building one moves nobody's random numbers."""
    import torch

    before = torch.random.get_rng_state()
    one, other = tiny_llama(), tiny_llama()
    ids = random_ids(8)

    assert torch.equal(one(ids).logits, other(ids).logits)
    assert torch.equal(before, torch.random.get_rng_state())


def test_listing_probes_loads_neither_torch_nor_transformers(python: Any) -> None:
    """Naming and listing probes is light, so that a misspelt name is refused at once."""
    done = python(
        "import sys; from labkit.probes import list_probes; list_probes(); "
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )

    assert done.stdout.strip() == "[]"


def test_a_head_size_that_is_divided_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the stack takes the hidden size over the heads instead, the probe reads that width."""
    from labkit.probes import heads

    def divided(*, head_dim: int | None = None) -> Any:
        del head_dim
        return tiny_llama()

    monkeypatch.setattr(heads, "tiny_llama", divided)
    row = run_probe("head_size_of_its_own")

    assert (row.outcome, row.did_it, row.substituted) == ("silent", False, True)
    assert row.evidence["measured"]["built"] == heads.DIVIDED
