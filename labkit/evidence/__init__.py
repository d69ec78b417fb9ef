"""What a result may be said to show: brackets, rungs, metadata and the claims they carry."""

from labkit.evidence.claims import Claim
from labkit.evidence.context import Bracket, Trials, effective_context
from labkit.evidence.ladder import FACTORS, Design, Rung
from labkit.evidence.metadata import CONTRACTS, SCOPE, Evidence, evidence_from_json

__all__ = [
    "CONTRACTS",
    "FACTORS",
    "SCOPE",
    "Bracket",
    "Claim",
    "Design",
    "Evidence",
    "Rung",
    "Trials",
    "effective_context",
    "evidence_from_json",
]
