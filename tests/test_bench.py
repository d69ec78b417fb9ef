"""The benches: found by their files, refused by name, and written so that a missed target shows."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import bench
import pytest
from benches import chart, verdicts
from benches._figures import Figure, figure


def test_each_file_is_a_bench_that_yields_figures() -> None:
    """The issue's figures have their bench, under its name, and a bench is not run to be found."""
    assert {"paired", "record", "import", "fingerprint", "admission"} <= set(bench.BENCHES)
    assert not any(name.startswith("_") for name in bench.BENCHES.values())
    for module in bench.BENCHES.values():
        source = Path(bench.__file__).with_name("benches") / f"{module}.py"
        assert "def measure_figures() -> Iterator[Figure]:" in source.read_text(encoding="utf-8")


def test_an_unknown_bench_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt bench ends with 2 and the names that there are, before anything is measured."""
    with pytest.raises(SystemExit) as ended:
        bench.main(["pared"])

    assert ended.value.code == 2
    assert "no such bench: pared; there are admission, " in capsys.readouterr().err


@pytest.mark.parametrize(("target", "status"), [(2.0, 0), (1.0, 1), (None, 0)])
def test_a_bench_ends_with_whether_its_targets_were_kept(
    target: float | None,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The median is held against the target, printed, and written with its ends."""

    def measure() -> Iterator[Figure]:
        yield figure("made", [3.0, 1.5, 1.0], unit="s", target=target, at_most=True, note="")

    planted = SimpleNamespace(measure_figures=measure)
    monkeypatch.setattr(bench, "import_module", lambda name: planted)
    file = tmp_path / "bench.json"

    assert bench.main(["paired", "--json", str(file)]) == status
    assert ("MISSED" in capsys.readouterr().out) == (status == 1)
    (found,) = json.loads(file.read_text(encoding="utf-8"))["figures"]
    assert (found["low"], found["value"], found["high"]) == (1.0, 1.5, 3.0)
    assert found["holds"] is (status == 0)


@pytest.mark.parametrize(
    ("path", "page", "said"),
    [
        pytest.param("/nowhere", "labkit-chart-spec", "no Chromium on PATH", id="no-chromium"),
        pytest.param(None, None, "no built book at", id="no-site"),
        pytest.param(None, "no chart here", "no built book at", id="no-chart"),
    ],
)
def test_without_a_browser_or_a_site_no_chart_is_timed(
    path: str | None,
    page: str | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A machine that cannot time a chart is told why, and no figure is made up."""
    found = tmp_path / "chromium"
    found.touch(mode=0o755)
    monkeypatch.setenv("PATH", path or str(tmp_path))
    monkeypatch.setattr(chart, "_SITE", tmp_path)
    if page:
        (tmp_path / "book").mkdir()
        (tmp_path / "book/intro.html").write_text(page)

    assert list(chart.measure_figures()) == []
    assert f"not measured, {said}" in capsys.readouterr().err


def test_a_chart_that_fails_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a page that cannot be timed the browser is closed and the server has ended."""
    closed = []
    browser = SimpleNamespace(close=lambda: closed.append(True))
    chromium = SimpleNamespace(launch=lambda **_: browser)
    started = contextlib.nullcontext(SimpleNamespace(chromium=chromium))
    driver = SimpleNamespace(sync_playwright=lambda: started)
    monkeypatch.setitem(sys.modules, "playwright.sync_api", driver)
    monkeypatch.setattr(chart.shutil, "which", lambda _: "/usr/bin/chromium")
    monkeypatch.setattr(chart, "_SITE", tmp_path)
    monkeypatch.setattr(chart, "_pages", lambda _: {"a page": "page.html"})

    def fail(*_: object) -> float:
        raise TimeoutError("no chart")

    monkeypatch.setattr(chart, "_first_chart_s", fail)
    before = threading.active_count()
    with pytest.raises(TimeoutError):
        list(chart.measure_figures())

    assert closed == [True]
    assert threading.active_count() == before


@pytest.mark.parametrize("written", [None, "{}"], ids=["no-file", "no-time"])
def test_a_verdict_benchmark_that_crashed_is_no_figure(
    written: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 1 without a report is a crash, and what it said is passed on."""

    def crash(shell: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if written is not None:
            Path(shell[-1]).write_text(written)
        return subprocess.CompletedProcess(shell, 1, stdout="", stderr="no such module")

    monkeypatch.setattr(verdicts.subprocess, "run", crash)
    with pytest.raises(SystemExit, match="no such module"):
        list(verdicts.measure_figures())
