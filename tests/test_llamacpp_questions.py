"""The probes' questions put to llama.cpp: their registry, their answers, their column."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import planted_release
import pytest
from support import ROOT

from labkit import charts
from labkit.errors import ProbeError, ReleaseError, ResultsError
from labkit.experiments import _other_stack, answers, releases
from labkit.probes import REGISTRY, Evidence, llamacpp


def _column() -> dict[str, Any]:
    (column,) = releases.load_matrix()["others"]
    return dict(column)


def test_the_published_column_was_asked_by_the_present_questions() -> None:
    """Its questions are the registered ones, asked by the code and data as they are now."""
    column = _column()
    asked = [row["probe"] for row in [*column["rows"], *column["own"]]]

    assert column["probes_digest"] == releases.questions_digest()
    assert asked == [question.id for question in llamacpp.list_questions()]


def test_the_published_column_is_drawn_from_its_evidence() -> None:
    """The stack that answered is named with its release, and its rows come from the evidence."""
    (evidence,) = releases.read_other_evidence(ROOT / "data/fallbacks")
    column = _column()

    assert column["packages"]["llama-cpp-python"] == column["release"]
    assert [row["outcome"] for row in column["rows"]] == [r["outcome"] for r in evidence["rows"]]


def test_no_substitution_is_without_a_rule() -> None:
    """Admission speaks of everything that llama.cpp puts in place of what was asked."""
    column = _column()
    decided = {row["probe"]: row["answered"] for row in answers.answer_stack(column)}
    substituted = [r["probe"] for r in [*column["rows"], *column["own"]] if r["substituted"]]

    assert len(substituted) > 10
    assert [name for name in substituted if not decided[name]] == []


def test_the_table_names_the_rule() -> None:
    """Each substitution stands in the table with the rule that says so beforehand."""
    table = charts.stack_answers(releases.load_matrix(), answers.answer_stack(_column()))[
        "rule that says so beforehand"
    ]

    assert table["top p out of range"] == "sampling.range"
    assert table["model named in the request"] == "model.name"
    assert not (table == "none").any()


def test_a_matrix_without_another_stack_has_no_such_table() -> None:
    """The refusal names the command that asks it."""
    with pytest.raises(ResultsError, match="labkit fallbacks --stack llamacpp"):
        charts.stack_answers(planted_release.small_matrix(), [])


def test_another_stack_stands_in_the_figure_as_its_last_column() -> None:
    """Its cells come after the releases', and a probe that it was not asked is a dash."""
    matrix = planted_release.small_matrix()
    row = {**matrix["releases"][0]["rows"][0], "outcome": "refused", "substituted": False}
    other = {"library": "llama-cpp-python", "release": "0.0.1", "rows": [row], "own": []}
    chart = charts.release_matrix(matrix | {"others": [other]})
    (cells,) = chart.to_dict()["datasets"].values()

    assert [(c["release"], c["text"]) for c in cells if c["release"] != "1.0.0"] == [
        ("llama.cpp 0.0.1", "refused"),
        ("llama.cpp 0.0.1", "–"),
    ]
    assert "llama.cpp 0.0.1: 1 refused; 0 did not as asked." in str(chart.description)


def test_a_probe_that_nobody_put_to_the_stack_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new probe of the lab needs no function here; its row is not askable, with that reason."""
    planted = next(iter(REGISTRY.values()))
    monkeypatch.setitem(REGISTRY, "planted", planted)
    (evidence,) = [llamacpp.find_question("planted").function(None)]  # type: ignore[arg-type]

    assert evidence.why_not_askable == "nobody has put this question to llama.cpp yet"


def test_a_question_is_answered_once() -> None:
    """A second function under the same id is refused by name."""
    with pytest.raises(ProbeError, match="got probe='top_p_out_of_range' twice"):
        llamacpp.question("top_p_out_of_range")(lambda _: Evidence())


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without llama-cpp-python nothing is asked, and the message names it."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(_other_stack.metadata, "version", missing)

    with pytest.raises(ReleaseError, match="needs llama-cpp-python; it is not installed"):
        _other_stack.ask_llamacpp(template="", template_of="x", told=lambda *_: None)


@pytest.mark.parametrize(
    "name",
    [
        "answer_longer_than_the_context",
        "cache_type_asked_for",
        "misspelt_generation_option",
        "prompt_beyond_rope_positions",
        "quantised_values_without_flash_attention",
        "rope_type_unknown",
        "static_cache_length_ignored",
        "system_message_folded",
        "top_p_out_of_range",
        "window_of_the_architecture",
        "window_on_an_architecture_without",
    ],
)
def test_the_installed_stack_answers_as_published(name: str) -> None:
    """Asked here and now on tiny files, the stack gives the published outcome and words."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    column = _column()
    if metadata.version("llama-cpp-python") != column["release"]:
        pytest.skip(f"llama-cpp-python {column['release']} is not installed")
    published = {row["probe"]: row for row in [*column["rows"], *column["own"]]}[name]
    row = llamacpp.ask_question(name)

    assert (row.outcome, row.did_it) == (published["outcome"], published["did_it"])
    assert row.said.partition("\n")[0][:199] == published["said"][:199]
