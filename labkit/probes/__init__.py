"""One registered probe per request that the software stack may not honour.

Each asks for one thing, records what the stack said, and measures what it did. The outcome
(refused, warned, silent, not askable here) is computed from that evidence.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from labkit.probes._capture import Attempt, attempt, clean_text
from labkit.probes._registry import (
    REGISTRY,
    Probe,
    ProbeContext,
    find_probe,
    list_probes,
    probe,
    read_probe_data,
    source_outcome,
)
from labkit.probes._result import (
    OUTCOMES,
    Evidence,
    ProbeResult,
    classify,
    judge,
    not_askable,
    summarise_probes,
)
from labkit.probes._run import run_probe, run_probes

# Importing a file registers its probes; a new file here is found without registration.
for _module in sorted(info.name for info in iter_modules(__path__)):
    if not _module.startswith("_"):
        import_module(f"{__name__}.{_module}")

__all__ = [
    "OUTCOMES",
    "REGISTRY",
    "Attempt",
    "Evidence",
    "Probe",
    "ProbeContext",
    "ProbeResult",
    "attempt",
    "classify",
    "clean_text",
    "find_probe",
    "judge",
    "list_probes",
    "not_askable",
    "probe",
    "read_probe_data",
    "run_probe",
    "run_probes",
    "source_outcome",
    "summarise_probes",
]
