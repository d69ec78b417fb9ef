"""Ask in a process of its own what may end the process: llama.cpp aborts where it asserts.

`python -m labkit.probes.llamacpp._apart FILE TOKENS CONTEXT` reads the tokens and ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from labkit.files import find_root
from labkit.probes._capture import Attempt, attempt
from labkit.probes.llamacpp._asking import ask, last_logits

_TIMEOUT_S = 120.0


class ProcessEnded(Exception):
    """The library ended the process that asked, so that no handler of ours could hear it."""


def ask_logits_apart(path: Path, *, tokens: int, context: int) -> Attempt[Any]:
    """Return the last logits of a fixed prompt, or the end of the process that asked first."""
    apart = attempt(lambda: _require_survival(path, tokens=tokens, context=context))
    if apart.exception_type == ProcessEnded.__name__:
        return apart
    return ask(lambda: last_logits(path, tokens=tokens, n_ctx=context))


def _require_survival(path: Path, *, tokens: int, context: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(path), str(tokens), str(context)],
        cwd=find_root(),
        env={**os.environ, "GGML_NO_BACKTRACE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    if done.returncode < 0:
        said = [line for line in done.stderr.splitlines() if "ASSERT" in line or "abort" in line]
        name = signal.Signals(-done.returncode).name
        raise ProcessEnded(f"{name} ended the process, which wrote: {' '.join(said[-1:])}")


if __name__ == "__main__":
    last_logits(Path(sys.argv[1]), tokens=int(sys.argv[2]), n_ctx=int(sys.argv[3]))
