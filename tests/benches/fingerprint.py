"""Fingerprints against the library's configs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benches._figures import PAIRS, ROOT, Figure, figure, python, ratios, seconds


def measure_figures() -> Iterator[Figure]:
    """Compare fingerprinting with AutoConfig on the ten configs, fresh and warm."""
    files = sorted((ROOT / "data" / "configs").glob("*.json"))
    names = [str(file) for file in files]
    ours = "from labkit.spec import fingerprint, read_config_file as r; from pathlib import Path; "
    ours += f"[fingerprint(r(Path(f))) for f in {names!r}]"
    theirs = (
        f"from transformers import AutoConfig; [AutoConfig.from_pretrained(f) for f in {names}]"
    )
    yield figure(
        "AutoConfig over fingerprint, fresh process",
        ratios(python(theirs), python(ours), pairs=PAIRS),
        unit="ratio",
        target=50.0,
        at_most=False,
        note="reading the ten configs from a fresh interpreter, imports included",
    )
    yield from _warm_fingerprint(files)


def _warm_fingerprint(files: Sequence[Path]) -> Iterator[Figure]:
    from transformers import AutoConfig

    from labkit.spec import fingerprint, read_config_file

    parsed = [read_config_file(file) for file in files]

    def ours() -> None:
        for _ in range(20):
            for config in parsed:
                fingerprint(config)

    def theirs() -> None:
        for file in files:
            AutoConfig.from_pretrained(str(file))

    warm = [20 * ratio for ratio in ratios(theirs, ours, pairs=PAIRS)]
    yield figure(
        "AutoConfig over fingerprint, warm",
        warm,
        unit="ratio",
        target=None,
        at_most=False,
        note="the same process, everything imported; ours from parsed configs",
    )
    rates = [20 * len(parsed) / seconds(ours) for _ in range(PAIRS)]
    yield figure(
        "fingerprints a second",
        rates,
        unit="1/s",
        target=5000.0,
        at_most=False,
        note="parsed configs, one core",
    )
