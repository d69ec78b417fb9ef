"""From text to score: extractors, the lengths that go with a score, and the knee of the cap.

A new extractor is one function under `@extractor` in a file of this folder, and its cases in
`tests/cases/extractors.json`.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")  # registers its extractors

from labkit.scoring.knee import (  # noqa: E402  # after all are registered
    CapPoint,
    Knee,
    KneeLimits,
    calibrate,
    find_knee,
    sweep,
)
from labkit.scoring.lengths import LengthReport, report_lengths, split  # noqa: E402
from labkit.scoring.registry import EXTRACTORS, Extractor, extractor, find_extractor  # noqa: E402
from labkit.scoring.scores import ItemScore, Score, Spread, score, spread  # noqa: E402

__all__ = [
    "EXTRACTORS",
    "CapPoint",
    "Extractor",
    "ItemScore",
    "Knee",
    "KneeLimits",
    "LengthReport",
    "Score",
    "Spread",
    "calibrate",
    "extractor",
    "find_extractor",
    "find_knee",
    "report_lengths",
    "score",
    "split",
    "spread",
    "sweep",
]
