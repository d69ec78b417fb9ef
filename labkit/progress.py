"""How far an experiment is: told by the experiment, shown by whoever started it.

A notebook's kernel has no terminal. Where `LABKIT_PROGRESS` names a file, the experiment
writes its place there, and the process that started the kernel reads it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

VARIABLE = "LABKIT_PROGRESS"
INTERVAL_S = 0.5

Progress = Callable[[int, int, str], None]
"""Called with the units done, the units in all, and what was done last."""


def tell(done: int, total: int, label: str) -> None:
    """Write the place to the file that `LABKIT_PROGRESS` names; without one, do nothing."""
    if target := os.environ.get(VARIABLE):
        part = Path(f"{target}.part")
        # Progress is a courtesy: a full disk will stop the run where it matters.
        with contextlib.suppress(OSError):
            part.write_text(json.dumps([done, total, label]), encoding="utf-8")
            part.replace(target)


@contextlib.contextmanager
def listening(show: Progress) -> Iterator[None]:
    """Call `show` whenever a process started inside the block has told a new place."""
    with tempfile.TemporaryDirectory(prefix="labkit-progress-") as folder:
        place = Path(folder) / "place.json"
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(place)
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(place, ended, show), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before


def _watch(place: Path, ended: threading.Event, show: Progress) -> None:
    last = None
    while True:
        over = ended.wait(INTERVAL_S)
        with contextlib.suppress(OSError, ValueError):
            if (told := json.loads(place.read_text(encoding="utf-8"))) != last:
                last = told
                show(*told)
        if over:
            return
