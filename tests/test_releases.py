"""Fallbacks per release: the matrix file, the environments, the process that answers."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import planted_release
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, read_cases

from labkit import charts
from labkit.errors import ProbeError, ReleaseError, ResultsError
from labkit.experiments import _release_asking, _release_environment, _release_matrix, releases
from labkit.experiments._release_environment import (
    ReleaseEnvironment,
    explain_pip,
    make_environment,
)
from labkit.probes import list_probes, run_probe

DIES_OF = "quantised_load_without_backend"
ANSWERS = "misspelt_generation_option"
FAILS = "flash_attention_not_installed"
# What these probes find is the machine's speed, not the release's answer.
TIMED = {"bfloat16_on_slow_hardware", "float16_on_slow_hardware"}


def small_matrix() -> dict[str, Any]:
    """Return a matrix of one release and two probes."""
    said = {"did_it": False, "substituted": True, "said": "careful", "why_not_askable": None}
    unasked = {"did_it": None, "substituted": False, "said": "", "why_not_askable": "no GPU"}
    return {
        "schema_version": 1,
        "library": "transformers",
        "probes": [
            {"number": 1, "probe": "asks_one", "asked": "one thing"},
            {"number": None, "probe": "asks_two", "asked": "another"},
        ],
        "releases": [
            {
                "release": "1.0.0",
                "asked_utc": "2026-01-01T00:00:00Z",
                "elapsed_s": 1.0,
                "probes_digest": "0" * 64,
                "device_asked": "cpu",
                "template_of": None,
                "python": "3.11.0",
                "packages": {"torch": "2.0.0", "transformers": "1.0.0"},
                "device": {},
                "rows": [
                    {"probe": "asks_one", "outcome": "warned", **said},
                    {"probe": "asks_two", "outcome": "not_askable", **unasked},
                ],
            }
        ],
    }


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache folder that is in force, with a chat template to be had."""
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    monkeypatch.setattr(releases.models, "fetch", lambda: tmp_path / "model")
    return tmp_path / "cache"


def planted(release: str = planted_release.RELEASE) -> ReleaseEnvironment:
    """Return an environment with the stub in it."""
    return make_environment(release, install=planted_release.install_stub)


# ---- the published matrix ---------------------------------------------------------------


def test_published_matrix_is_drawn_from_its_evidence() -> None:
    """The committed matrix is whole, and is what its committed evidence gives."""
    evidence = _release_matrix.read_all_evidence(ROOT / "data/fallbacks")

    assert releases.load_matrix() == releases.build_matrix(evidence)


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


# ---- reading a matrix -------------------------------------------------------------------


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c["why"]) for c in read_cases("releases_refused.json")]
)
def test_a_spoilt_matrix_is_refused_at_its_place(case: dict[str, Any]) -> None:
    """Each fault is refused with the place or the names."""
    matrix = small_matrix()
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


# ---- environments -----------------------------------------------------------------------


@pytest.mark.parametrize("release", ["latest", "5.17", "5.17.0 --pre", "-r x", "5.17.0\n", ""])
def test_what_is_no_release_never_reaches_pip(release: str) -> None:
    """Anything but three numbers is refused before a command line is built from it."""
    with pytest.raises(ReleaseError, match="A release must be three numbers with dots"):
        make_environment(release, install=_must_not_run)


def _must_not_run(release: str, python: Path) -> None:
    pytest.fail(f"installed {release}")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param(
            "ERROR: Could not find a version that satisfies the requirement transformers==5.17.9 "
            "(from versions: 5.16.1, 5.17.0, 5.18.0)\n"
            "ERROR: No matching distribution found for transformers==5.17.9",
            "A release must be one that was published; got release='5.17.9'. "
            "Near ones: 5.17.0, 5.18.0, 5.16.1.",
            id="unknown",
        ),
        pytest.param(
            "WARNING: Retrying (Retry(total=1)) after connection broken\n"
            "ERROR: Could not find a version that satisfies the requirement transformers==5.17.9 "
            "(from versions: none)",
            "Installing a release needs a package index; got none for transformers==5.17.9. "
            "Nothing was kept. Check the network and call the same command again; releases that "
            "were installed before need none.",
            id="no-network",
        ),
        pytest.param(
            "ERROR: Could not install packages: [Errno 28] No space left on device",
            "The disk must have room for transformers==5.17.9; it is full. "
            "Free some space and try again.",
            id="full-disk",
        ),
        pytest.param(
            "ERROR: No matching distribution found for tokenizers<0.20,>=0.19",
            "transformers==5.17.9 must install into a Python "
            f"{sys.version_info.major}.{sys.version_info.minor} environment from wheels alone; "
            "pip said 'ERROR: No matching distribution found for tokenizers<0.20,>=0.19'. "
            "Nothing was kept. Leave this release out, or use another Python.",
            id="no-wheel",
        ),
    ],
)
def test_a_failed_install_says_why_and_what_to_do(said: str, words: str) -> None:
    """What pip said becomes one sentence with a remedy."""
    assert explain_pip(said, release="5.17.9") == words


def test_a_failed_install_leaves_nothing(cache: Path) -> None:
    """After a failure the cache holds no environment, and the next call makes one."""

    def fails(release: str, python: Path) -> None:
        (python.parent / "half").touch()
        raise ReleaseError("no network")

    with pytest.raises(ReleaseError):
        make_environment(planted_release.RELEASE, install=fails)

    assert list((cache / "releases").iterdir()) == []
    assert planted().python.exists()


def test_an_environment_is_made_once(cache: Path) -> None:
    """The second call installs nothing, and what a killed process left is swept away."""
    made = planted()
    left = cache / "releases" / ".making-by-a-killed-process"
    left.mkdir()
    os.utime(left, (0, 0))
    again = make_environment(planted_release.RELEASE, install=_must_not_run)
    planted("0.0.3")

    assert again == made
    assert not left.exists()


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where the cache's folder should be is one message, not a traceback."""
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        Exception, match="must stand in a folder, and a file is in its way"
    ) as refused:
        planted()

    assert type(refused.value).__name__ == "RunError"


# ---- the process that answers -----------------------------------------------------------


@pytest.mark.usefixtures("cache")
def test_a_planted_release_is_asked_in_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are the stub's, whatever path the caller set; a death is named and not the end."""
    monkeypatch.setenv("PYTHONPATH", str(Path(pytest.__file__).parent.parent))
    told: list[str] = []
    asked = _release_asking.ask_release(
        planted(), [DIES_OF, ANSWERS, FAILS], request={"device": "cpu"}, told=told.append
    )
    row = asked.rows[ANSWERS]

    assert asked.stack["packages"]["transformers"] == planted_release.RELEASE
    assert (row["outcome"], row["did_it"], row["substituted"]) == ("silent", False, True)
    assert asked.unanswered == {DIES_OF: "the process was ended by SIGKILL while it was asked"}
    assert asked.rows[FAILS]["outcome"] == "not_askable"
    assert "no attribute 'LlamaConfig'" in asked.rows[FAILS]["why_not_askable"]
    assert told == [ANSWERS, FAILS]


@pytest.mark.usefixtures("cache")
def test_a_release_that_cannot_be_imported_is_not_askable() -> None:
    """Every probe of it says why, and none is judged."""
    environment = make_environment("0.0.1", install=planted_release.install_broken)
    asked = _release_asking.ask_release(environment, [ANSWERS], request={"device": "cpu"})

    assert asked.unanswered == {
        ANSWERS: "this release cannot be imported: ImportError: needs another torch"
    }


@pytest.mark.usefixtures("cache")
def test_an_environment_of_another_release_is_refused() -> None:
    """What a folder is called does not decide which release answered."""

    def install_other(release: str, python: Path) -> None:
        planted_release.install_stub("0.0.7", python)

    environment = make_environment("0.0.1", install=install_other)
    with pytest.raises(ReleaseError, match=r"got transformers 0\.0\.7 in that of 0\.0\.1"):
        _release_asking.ask_release(environment, [ANSWERS], request={"device": "cpu"})


def test_a_process_that_says_nothing_is_refused(tmp_path: Path) -> None:
    """An interpreter that ends at once is named with how it ended."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    (tmp_path / "bin" / "python").chmod(0o755)
    environment = ReleaseEnvironment(release="1.0.0", folder=tmp_path)
    with pytest.raises(ReleaseError, match="it ended with code 3 saying no such thing"):
        _release_asking.ask_release(environment, [ANSWERS], request={"device": "cpu"})


def test_a_process_that_hangs_is_ended(tmp_path: Path) -> None:
    """Past its time a process is killed, and the reason names the time."""
    (tmp_path / "answers").touch()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    ended = _release_asking._wait(process, tmp_path / "answers", told=lambda _: None, timeout_s=0.1)

    assert ended == "gave no answer within 0.1 s"
    assert process.poll() is not None


LINES = [
    {"stack": {"packages": {}}, "cannot_load": None},
    {"asking": "one"},
    {"row": {"probe": "one", "said": "a line\nand another"}},
    {"asking": "two"},
    {"row": {"probe": "two", "said": "…"}},
]
WRITTEN = "".join(json.dumps(line) + "\n" for line in LINES)


@given(st.integers(min_value=0, max_value=len(WRITTEN)))
def test_answers_cut_off_anywhere_are_read_as_far_as_they_go(cut: int) -> None:
    """However much a process wrote before it died, whole rows are kept and one is being asked."""
    answers = _release_asking.read_answers(WRITTEN[:cut], ended="was ended by SIGKILL")
    rows = list(answers.rows)

    assert rows == ["one", "two"][: len(rows)]
    assert answers.asking in {None, "one", "two"} - set(rows)


# ---- the whole --------------------------------------------------------------------------


def _run_planted(folder: Path, **options: Any) -> dict[str, Any]:
    return releases.run(folder, releases=["0.0.1"], make=planted, **options)


def test_what_was_asked_is_kept_and_not_asked_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run reads the evidence; changed probes and `again` ask anew."""
    some = [p for p in list_probes() if p.id in (ANSWERS, DIES_OF)]
    monkeypatch.setattr(releases, "list_probes", lambda: some)
    monkeypatch.setattr(releases.metadata, "version", _stub_torch(metadata.version))
    calls: list[str] = []
    ask = releases.ask_release
    monkeypatch.setattr(
        releases, "ask_release", lambda *a, **k: calls.append("asked") or ask(*a, **k)
    )
    first = _run_planted(tmp_path / "kept")
    second = _run_planted(tmp_path / "kept")
    monkeypatch.setattr(releases, "probes_digest", lambda: "f" * 64)
    stale = releases.stale_releases(tmp_path / "kept")
    third = _run_planted(tmp_path / "kept")

    assert (
        first == second == releases.load_matrix(tmp_path / "kept") | {"releases": first["releases"]}
    )
    assert stale == ["0.0.1"]
    assert third["releases"][0]["probes_digest"] == "f" * 64
    assert len(calls) == 2


def _stub_torch(version: Callable[[str], str]) -> Callable[[str], str]:
    """Return a version look-up by which the lab's torch is the stub's."""
    return lambda name: "0.0.2" if name == "torch" else version(name)


@pytest.mark.usefixtures("cache")
def test_some_probes_alone_are_shown_and_not_kept(tmp_path: Path) -> None:
    """Asking one probe gives its row and leaves the folder as it was."""
    matrix = _run_planted(tmp_path / "kept", probes=[ANSWERS])

    assert [row["probe"] for row in matrix["releases"][0]["rows"]] == [ANSWERS]
    assert not (tmp_path / "kept").exists()


@pytest.mark.usefixtures("cache")
def test_an_unknown_probe_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    """A misspelt probe costs no installation."""
    with pytest.raises(ProbeError, match="misspelt_generation_option"):
        releases.run(
            tmp_path,
            releases=["0.0.1"],
            probes=["mispelt_generation_option"],
            make=lambda release: pytest.fail(release),
        )


def test_a_matrix_left_with_other_probes_does_not_stop_a_new_one(tmp_path: Path) -> None:
    """Evidence asked by other probes is left out of the matrix, and kept."""
    new = _evidence("2.0.0", digest="1" * 64, probes=("asks_one", "asks_three"))
    for each in (_evidence("1.0.0", digest="0" * 64, probes=("asks_one",)), new):
        _release_matrix.write_evidence(tmp_path, each)
    matrix = _release_matrix.draw_matrix(tmp_path, probes_digest="1" * 64)

    assert [column["release"] for column in matrix["releases"]] == ["2.0.0"]
    assert len(_release_matrix.read_all_evidence(tmp_path)) == 2


def _evidence(release: str, *, digest: str, probes: tuple[str, ...]) -> dict[str, Any]:
    column = copy.deepcopy(small_matrix()["releases"][0])
    row = column["rows"][0] | {"number": None, "asked": "x", "evidence": {}}
    rows = [row | {"probe": probe} for probe in probes]
    return column | {"release": release, "probes_digest": digest, "rows": rows}


def test_releases_stand_from_old_to_new() -> None:
    """4.9 comes before 4.10, and both before 5."""
    given_order = ["5.0.0", "4.10.0", "4.9.0"]

    assert sorted(given_order, key=_release_environment.release_order) == given_order[::-1]


def test_the_matrix_keeps_the_first_line_of_what_was_said() -> None:
    """Long and many-lined messages are trimmed in the matrix; the evidence keeps them."""
    evidence = _evidence("1.0.0", digest="0" * 64, probes=("asks_one",))
    evidence["rows"][0]["said"] = "x" * 300 + "\nsecond line"
    cell = releases.build_matrix([evidence])["releases"][0]["rows"][0]

    assert cell["said"] == "x" * 199 + "…"
    assert "evidence" not in cell


# ---- shown ------------------------------------------------------------------------------


def _two_releases() -> dict[str, Any]:
    matrix = small_matrix()
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
    assert charts.release_changes(small_matrix()).empty


def test_a_matrix_without_releases_draws_nothing() -> None:
    """An empty matrix is refused with the command that fills it."""
    with pytest.raises(ResultsError, match="labkit fallbacks --matrix"):
        charts.release_matrix(small_matrix() | {"releases": []})
