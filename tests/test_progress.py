"""Progress that crosses from a kernel to the process that started it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from labkit import progress

TELL = "from labkit.progress import tell; tell(3, 7, 'eager/p01')"


def test_a_child_process_is_heard() -> None:
    """What a child tells is shown by its parent, at the latest when the block ends."""
    heard: list[tuple[int, int, str]] = []
    with progress.listening(lambda *place: heard.append(place)):
        subprocess.run([sys.executable, "-c", TELL], check=True)

    assert heard == [(3, 7, "eager/p01")]
    assert progress.VARIABLE not in os.environ


def test_without_a_listener_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """An experiment called by hand tells nobody and fails on nothing."""
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    progress.tell(1, 2, "x")
    monkeypatch.setenv(progress.VARIABLE, "/nowhere/at/all")

    progress.tell(1, 2, "x")
