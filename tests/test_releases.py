"""Asking several releases: what is kept, and what is not asked again."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import planted_release
import pytest

from labkit.cli import main
from labkit.errors import ProbeError
from labkit.experiments import releases
from labkit.probes import list_probes

DIES_OF = "quantised_load_without_backend"
ANSWERS = "misspelt_generation_option"


def _run_planted(folder: Path, **options: Any) -> dict[str, Any]:
    return releases.run(folder, releases=["0.0.1"], make=planted_release.planted, **options)


def test_what_was_asked_is_kept_and_not_asked_again(
    release_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.usefixtures("release_cache")
def test_some_probes_alone_are_shown_and_not_kept(tmp_path: Path) -> None:
    """Asking one probe gives its row and leaves the folder as it was."""
    matrix = _run_planted(tmp_path / "kept", probes=[ANSWERS])

    assert [row["probe"] for row in matrix["releases"][0]["rows"]] == [ANSWERS]
    assert not (tmp_path / "kept").exists()


@pytest.mark.usefixtures("release_cache")
def test_an_unknown_probe_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    """A misspelt probe costs no installation."""
    with pytest.raises(ProbeError, match="misspelt_generation_option"):
        releases.run(
            tmp_path,
            releases=["0.0.1"],
            probes=["mispelt_generation_option"],
            make=lambda release: pytest.fail(release),
        )


@pytest.mark.parametrize(
    "option", [["--probe", "temperature_without_sampling"], ["--release", "5.0.0"]]
)
def test_another_stack_reads_no_probe_or_release(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """An option that would be passed over is refused, before anything is asked or written."""
    assert main(["fallbacks", "--stack", "llamacpp", *option]) == 2
    assert f"got {' '.join(option)}, which --stack does not read" in capsys.readouterr().err
