"""The import of the package."""

from __future__ import annotations

from collections.abc import Iterator

from benches._figures import PAIRS, Figure, figure, python, seconds


def measure_figures() -> Iterator[Figure]:
    """Time `import labkit` in a fresh interpreter, less the interpreter's own start."""
    bare, ours = python("pass"), python("import labkit")
    ours()
    yield figure(
        "import labkit",
        [max(seconds(ours) - seconds(bare), 0.0) for _ in range(PAIRS)],
        unit="s",
        target=0.1,
        at_most=True,
        note="a fresh interpreter, less the same interpreter doing nothing",
    )
