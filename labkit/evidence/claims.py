"""A claim that exists only if its evidence carries it."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import EvidenceError
from labkit.evidence.ladder import Design, Rung
from labkit.evidence.metadata import QUOTABLE, Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence about two sides of a comparison, no stronger than the comparison.

    Attributes:
        result: What was found, in words, with its numbers and conditions.
        rung: How much the sentence says.
        contract: What kind of property it is about.
        design: What the comparison held fixed.
        evidence: The metadata of the result.
    """

    result: str
    rung: Rung
    contract: str
    design: Design
    evidence: Evidence

    def __post_init__(self) -> None:
        if reasons := _refusals(self):
            raise EvidenceError(
                f"A claim must be carried by its evidence; got {'; '.join(reasons)}. "
                "Claim less, or measure more."
            )

    @property
    def sentence(self) -> str:
        """The result with its label, and what else differed."""
        text = f"{self.result.rstrip('.')}. This is a {self.rung.words} comparison"
        if self.rung is Rung.CAUSAL:
            return f"{text}."
        others = ", ".join(self.design.confounds) or "nothing on record"
        return f"{text}; not held fixed: {others}."


def _refusals(claim: Claim) -> list[str]:
    reasons = [] if claim.result.strip() else ["no result in words"]
    if missing := claim.design.missing_for(claim.rung):
        reasons.append(
            f"a {claim.rung.words} claim from a {claim.design.rung.words} comparison "
            f"({', '.join(missing)})"
        )
    if claim.contract != claim.evidence.contract:
        reasons.append(
            f"a claim about {claim.contract} from evidence about {claim.evidence.contract}"
        )
    if claim.evidence.status not in QUOTABLE:
        reasons.append(f"evidence whose status is {claim.evidence.status}")
    return reasons
