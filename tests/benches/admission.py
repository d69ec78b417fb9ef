"""Admission: decisions a second, and the command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benches._figures import PAIRS, ROOT, Figure, figure, seconds


def measure_figures() -> Iterator[Figure]:
    """Count decisions a second with all rules, and time the command from the shell."""
    from labkit import Request, RuntimeFacts, admit, fingerprint
    from labkit.spec import read_config_file

    spec = fingerprint(read_config_file(ROOT / "data" / "configs" / "llama-3.2-1b.json"))
    request = Request(prompt_tokens=300, max_new_tokens=48)
    facts = RuntimeFacts()
    count = 20_000

    def decide() -> None:
        for _ in range(count):
            admit(spec, request, facts)

    yield figure(
        "decisions a second",
        [count / seconds(decide) for _ in range(PAIRS)],
        unit="1/s",
        target=100_000.0,
        at_most=False,
        note="a plain request, every rule, one core",
    )
    shell = [sys.executable, "-m", "labkit", "admission", "--json"]

    def call() -> None:
        subprocess.run(shell, cwd=ROOT, check=True, capture_output=True)

    yield figure(
        "labkit admission from the shell",
        [seconds(call) for _ in range(PAIRS)],
        unit="s",
        target=0.4,
        at_most=True,
        note="the twelve cases",
    )
