"""Is a run fit to be read? What its folder lacks, which gate it fails, and where two runs part."""

from __future__ import annotations

from labkit.audit import checks as _checks  # registers the preflight
from labkit.audit import gating as _gating  # registers the gates
from labkit.audit._registry import Answer, Finding
from labkit.audit.evidence import RunEvidence, gather
from labkit.audit.routing import SYMPTOMS, Route, route
from labkit.audit.running import pass_gates, preflight

del _checks, _gating

__all__ = [
    "SYMPTOMS",
    "Answer",
    "Finding",
    "Route",
    "RunEvidence",
    "gather",
    "pass_gates",
    "preflight",
    "route",
]
