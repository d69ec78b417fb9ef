"""Every probe is answered by a rule: what a stack substitutes, admission says beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

from labkit.admission import RULES, RuntimeFacts
from labkit.errors import ProbeError
from labkit.experiments import answers, fallbacks
from labkit.probes import list_probes

# What a machine without a GPU, without optional packages and with slow 16-bit types knows.
FACTS = RuntimeFacts.from_json(
    {
        "device_kind": "cpu",
        "fast_bfloat16": False,
        "fast_float16": False,
        "flash_attention_installed": False,
        "quantization_backends": [],
        "right_padding_correct": False,
        "cache_length_honoured": False,
        "head_size_kept": False,
        "stored_dtype_kept": False,
        "attention_implementations": ["eager", "sdpa"],
    }
)
MATRIX = ROOT / "data" / "fallbacks" / "matrix.json"


def rows_where_nothing_was_done(outcome: str) -> list[dict[str, Any]]:
    """Return a row for every probe, as if the stack had substituted something."""
    return [
        {
            "number": probe.number,
            "probe": probe.id,
            "asked": probe.asks,
            "outcome": outcome,
            "did_it": False,
            "substituted": True,
        }
        for probe in list_probes()
        if probe.id not in DONE_OR_REFUSED
    ]


# Probes of a request that is fine, so that no rule may object to it.
DONE_OR_REFUSED = {
    "system_message_accepted",
    "static_cache_compilation_impossible",
    "static_cache_without_compilation",
}


def test_every_probe_has_its_request_and_every_request_a_probe() -> None:
    """The file names each registered probe once, and rules that exist."""
    found = [answer.probe for answer in answers.read_answers()]

    assert sorted(found) == sorted(probe.id for probe in list_probes())
    assert {answer.rule for answer in answers.read_answers()} <= {rule.id for rule in RULES}


def test_whatever_the_stack_substitutes_is_answered() -> None:
    """Did the stack go on without doing as asked, a rule would have said so beforehand."""
    section = answers.answer_all(rows_where_nothing_was_done("silent"), FACTS)

    assert section["summary"]["unanswered"] == []
    assert section["summary"]["silent_substitutions"] == len(section["rows"])


def test_what_the_stack_can_do_is_admitted() -> None:
    """No rule objects to the requests that are fine."""
    rows = [
        {"probe": name, "outcome": "silent", "did_it": True, "substituted": False}
        for name in DONE_OR_REFUSED
    ]
    section = answers.answer_all(rows, FACTS)

    assert {row["decision"] for row in section["rows"]} == {"accept"}


def test_a_missing_fact_is_no_answer() -> None:
    """A rule that only says what it does not know has not answered a substitution."""
    section = answers.answer_all(rows_where_nothing_was_done("silent"), RuntimeFacts())

    assert "float16_on_slow_hardware" in section["summary"]["unanswered"]


def test_evidence_outranks_what_is_planted() -> None:
    """A template found to fold is decided as folding, whatever the probe was made for."""
    row = {
        "probe": "system_message_accepted",
        "outcome": "silent",
        "did_it": False,
        "substituted": True,
        "evidence": {"measured": {"treatment": "dropped"}},
    }
    (decided,) = answers.answer_all([row], FACTS)["rows"]

    assert decided["answered"]
    assert decided["reasons"][0]["message"] == "the template drops the system message"


def test_a_probe_without_a_request_is_refused_by_name() -> None:
    """A probe that nobody wrote the request for is no empty row."""
    row = {"probe": "new", "outcome": "silent", "did_it": False, "substituted": True}

    with pytest.raises(ProbeError, match="got probe='new' without one"):
        answers.answer_all([row], FACTS)


@pytest.mark.skipif(not MATRIX.is_file(), reason="data/fallbacks/matrix.json is not there")
def test_every_release_in_the_table_is_answered() -> None:
    """No release that was asked substitutes anything that no rule would have announced."""
    releases = json.loads(MATRIX.read_text(encoding="utf-8"))["releases"]
    unanswered = [
        (release["release"], probe)
        for release in releases
        for probe in answers.answer_all(release["rows"], FACTS)["summary"]["unanswered"]
    ]

    assert len(releases) >= 4
    assert unanswered == []


def test_a_run_that_asked_its_probes_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows that a run holds are taken; the scratch run, which may be old, is asked anew."""
    row = {
        "number": 7,
        "probe": "temperature_without_sampling",
        "asked": "a temperature",
        "outcome": "warned",
        "did_it": False,
        "substituted": True,
        "said": "",
        "evidence": {},
        "stand_in": None,
        "why_not_askable": None,
        "source_outcome": None,
    }
    section = {"rows": [row], "beyond": [], "summary": {}, "elapsed_s": 0.1}
    asked: list[object] = []

    def run(*arguments: object, **options: object) -> dict[str, Any]:
        asked.append(arguments)
        return section

    monkeypatch.setattr(answers, "learn_here", lambda device: FACTS)
    monkeypatch.setattr(fallbacks, "run", run)
    monkeypatch.setattr(answers, "read_results", lambda folder: {"fallbacks": section})
    (tmp_path / "results.json").write_text("{}")

    assert answers.run("quick", tmp_path)["summary"]["probes"] == 1
    assert asked == []
    assert answers.run("quick", "")["summary"]["unanswered"] == []
    assert len(asked) == 1


@pytest.mark.slow
def test_the_installed_stack_is_answered() -> None:
    """Probes and rules, both run here, leave no substitution without an answer."""
    from labkit.probes import run_probes

    rows = [result.to_json() for result in run_probes()]
    section = answers.answer_all(rows, answers.learn_here("cpu"))

    assert section["summary"]["unanswered"] == []
    assert section["summary"]["substitutions"] >= 5
