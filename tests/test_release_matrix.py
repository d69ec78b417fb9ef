"""The matrix of releases: as published, as a file to be read, and as it is shown."""

from __future__ import annotations

import copy
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import planted_release
import pytest
from support import ROOT, read_cases

from labkit import charts
from labkit.errors import ReleaseError, ResultsError
from labkit.experiments import _release_matrix, releases
from labkit.probes import list_probes, run_probe

# What these probes find is the machine's speed, not the release's answer.
TIMED = {"bfloat16_on_slow_hardware", "float16_on_slow_hardware"}


def test_published_matrix_is_drawn_from_its_evidence() -> None:
    """The committed matrix is whole, and is what its committed evidence gives."""
    evidence = _release_matrix.read_all_evidence(ROOT / "data/fallbacks")

    others = releases.read_other_evidence(ROOT / "data/fallbacks")

    assert releases.load_matrix() == releases.build_matrix(evidence, others)


def test_published_matrix_asks_what_the_registry_asks() -> None:
    """Its probes are the registered ones, in their order and words."""
    registered = [{"number": p.number, "probe": p.id, "asked": p.asks} for p in list_probes()]

    assert releases.load_matrix()["probes"] == registered


def test_published_matrix_holds_the_releases_it_must() -> None:
    """It has the source's release, one of 4.x, and the one that the lock pins."""
    found = {column["release"] for column in releases.load_matrix()["releases"]}
    pins = re.findall(r"^transformers==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)

    assert {"5.17.0", *pins} <= found
    assert any(release.startswith("4.") for release in found)
    assert found >= set(releases.RELEASES)


def test_published_columns_answer_for_their_own_release() -> None:
    """Each column's stack names the release that heads it, and all have one torch and device."""
    columns = releases.load_matrix()["releases"]

    assert all(c["packages"]["transformers"] == c["release"] for c in columns)
    assert len({(c["packages"]["torch"], c["python"], c["device_asked"]) for c in columns}) == 1


def test_published_answers_are_judged_by_the_same_rule() -> None:
    """A substitution is what went on and did not do it; a refusal never did it."""
    rows = [row for column in releases.load_matrix()["releases"] for row in column["rows"]]

    assert all(
        row["substituted"] == (row["outcome"] in ("warned", "silent") and row["did_it"] is False)
        for row in rows
    )
    assert all(row["did_it"] is False for row in rows if row["outcome"] == "refused")


def test_published_evidence_names_no_machine() -> None:
    """No path of the machine that asked stands in the evidence."""
    texts = [file.read_text() for file in (ROOT / "data/fallbacks").rglob("*.json")]

    assert not any(re.search(r"/(?:home|root|work|tmp|usr|opt)/", text) for text in texts)


@pytest.mark.slow
def test_the_release_in_use_still_answers_as_published() -> None:
    """Asked here and now, the release in use gives the published outcomes, timings apart."""
    in_use = metadata.version("transformers")
    column = next(c for c in releases.load_matrix()["releases"] if c["release"] == in_use)
    published = {row["probe"]: row for row in column["rows"]}
    asked = [p.id for p in list_probes() if p.id not in TIMED and "tokenizer" not in p.needs]
    rows = [run_probe(probe) for probe in asked]

    assert [(r.probe, r.outcome, r.did_it) for r in rows] == [
        (p, published[p]["outcome"], published[p]["did_it"]) for p in asked
    ]


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c["why"]) for c in read_cases("releases_refused.json")]
)
def test_a_spoilt_matrix_is_refused_at_its_place(case: dict[str, Any]) -> None:
    """Each fault is refused with the place or the names."""
    matrix = planted_release.small_matrix()
    releases.check_matrix(matrix, source="planted")
    *path, last = case["at"]
    holder: Any = matrix
    for key in path:
        holder = holder[key]
    holder[last] = case["value"]
    with pytest.raises(ResultsError) as refused:
        releases.check_matrix(matrix, source="planted")

    assert case["error_has"] in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(None, "A matrix must exist", id="absent"),
        pytest.param("{", "A matrix must be JSON", id="cut-off"),
        pytest.param("[]", "A matrix must be a JSON object; got list", id="list"),
    ],
)
def test_a_file_that_is_no_matrix_says_how_to_make_one(
    tmp_path: Path, text: str | None, words: str
) -> None:
    """A missing or broken file is refused with the command that makes it."""
    if text is not None:
        (tmp_path / "matrix.json").write_text(text, encoding="utf-8")
    with pytest.raises(ResultsError) as refused:
        releases.load_matrix(tmp_path)

    assert str(refused.value).startswith(words)
    assert "labkit fallbacks --matrix" in str(refused.value)


def test_a_matrix_left_with_other_probes_does_not_stop_a_new_one(tmp_path: Path) -> None:
    """Evidence asked by other probes is left out of the matrix, and kept."""
    new = _evidence("2.0.0", digest="1" * 64, probes=("asks_one", "asks_three"))
    for each in (_evidence("1.0.0", digest="0" * 64, probes=("asks_one",)), new):
        _release_matrix.write_evidence(tmp_path, each)
    matrix = _release_matrix.draw_matrix(tmp_path, probes_digest="1" * 64)

    assert [column["release"] for column in matrix["releases"]] == ["2.0.0"]
    assert len(_release_matrix.read_all_evidence(tmp_path)) == 2


def test_a_matrix_of_no_asked_release_says_to_ask_them(tmp_path: Path) -> None:
    """Where every answer was to other probes nothing is drawn, and the command to ask is named."""
    _release_matrix.write_evidence(tmp_path, _evidence("1.0.0", digest="0" * 64, probes=("one",)))

    with pytest.raises(ReleaseError, match="labkit fallbacks --matrix"):
        _release_matrix.draw_matrix(tmp_path, probes_digest="1" * 64)
    assert not (tmp_path / _release_matrix.MATRIX_NAME).exists()
    assert len(_release_matrix.read_all_evidence(tmp_path)) == 1


def _evidence(release: str, *, digest: str, probes: tuple[str, ...]) -> dict[str, Any]:
    column = copy.deepcopy(planted_release.small_matrix()["releases"][0])
    row = column["rows"][0] | {"number": None, "asked": "x", "evidence": {}}
    rows = [row | {"probe": probe} for probe in probes]
    return column | {"release": release, "probes_digest": digest, "rows": rows}


def test_the_matrix_keeps_the_first_line_of_what_was_said() -> None:
    """Long and many-lined messages are trimmed in the matrix; the evidence keeps them."""
    evidence = _evidence("1.0.0", digest="0" * 64, probes=("asks_one",))
    evidence["rows"][0]["said"] = "x" * 300 + "\nsecond line"
    cell = releases.build_matrix([evidence])["releases"][0]["rows"][0]

    assert cell["said"] == "x" * 199 + "…"
    assert "evidence" not in cell


def _two_releases() -> dict[str, Any]:
    matrix = planted_release.small_matrix()
    later = copy.deepcopy(matrix["releases"][0]) | {"release": "2.0.0"}
    later["rows"][0] |= {"outcome": "refused", "substituted": False, "said": "no such thing"}
    matrix["releases"].append(later)
    return matrix


def test_the_figure_says_which_answers_changed() -> None:
    """The text read out in the figure's place names each change with its releases."""
    chart = charts.release_matrix(_two_releases())

    assert chart.description == (
        "Matrix of 2 probes and 2 releases. Answers that changed: asks one was warned, did not "
        "as asked, in 1.0.0 and refused in 2.0.0."
    )


def test_the_figure_marks_substitutions_and_what_was_not_askable() -> None:
    """Cells carry their outcome in words, a cross where something else was done."""
    (cells,) = charts.release_matrix(_two_releases()).to_dict()["datasets"].values()

    assert [cell["text"] for cell in cells] == ["warned ×", "refused", "–", "–"]


def test_the_table_of_changes_has_a_line_an_answer() -> None:
    """Only probes whose answer changed are listed, each answer with its releases."""
    table = charts.release_changes(_two_releases())

    assert table["releases"].tolist() == ["1.0.0", "2.0.0"]
    assert table["the stack said"].tolist() == ["careful", "no such thing"]
    assert charts.release_changes(planted_release.small_matrix()).empty


def test_a_matrix_without_releases_draws_nothing() -> None:
    """An empty matrix is refused with the command that fills it."""
    with pytest.raises(ResultsError, match="labkit fallbacks --matrix"):
        charts.release_matrix(planted_release.small_matrix() | {"releases": []})
