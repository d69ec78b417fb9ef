"""What a comparison controls, and the strongest label that it can carry.

Four rungs, as in the source's ladder for claims about architecture: each asks for everything
that the ones below ask for. What nobody recorded counts as not held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from labkit.evidence.words import known_word


class Rung(IntEnum):
    """How much a comparison may say, from the least to the most."""

    BOUNDARY = 1
    CONTROLLED = 2
    MATCHED = 3
    CAUSAL = 4

    @property
    def words(self) -> str:
        """What a reader sees."""
        return _WORDS[self]


_WORDS: Final = {
    Rung.BOUNDARY: "boundary",
    Rung.CONTROLLED: "controlled operational",
    Rung.MATCHED: "matched comparative",
    Rung.CAUSAL: "causal ablation",
}

STACK: Final = ("engine", "hardware", "workload", "metric")
CHECKPOINT: Final = ("family", "scale", "training", "tokenizer")
REST: Final = ("generation", "implementation")
FACTORS: Final = (*STACK, *CHECKPOINT, *REST, "component")
"""`component` is the part of the architecture that an ablation varies."""

_ASKS: Final = {
    Rung.CONTROLLED: STACK,
    Rung.MATCHED: (*STACK, *CHECKPOINT),
    Rung.CAUSAL: (*STACK, *CHECKPOINT, *REST),
}
STATES: Final = ("held", "varied", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What two sides of a comparison have in common.

    Attributes:
        factors: `held`, `varied` or `unknown` for each factor; one that is not named is unknown.
    """

    factors: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, state in self.factors.items():
            known_word(name, FACTORS, what="A factor")
            known_word(state, STATES, what=f"The state of {name}")
        object.__setattr__(self, "factors", MappingProxyType(dict(self.factors)))

    def state(self, factor: str) -> str:
        """Return how a factor stood."""
        return self.factors.get(factor, "unknown")

    def missing_for(self, rung: Rung) -> tuple[str, ...]:
        """Return what a rung asks for and the design does not have, in words."""
        missing = [
            f"{factor} is {self.state(factor)}"
            for factor in _ASKS.get(rung, ())
            if self.state(factor) != "held"
        ]
        if rung is Rung.CAUSAL and self.state("component") != "varied":
            missing.append(f"component is {self.state('component')}, not varied")
        return tuple(missing)

    @property
    def rung(self) -> Rung:
        """The highest rung that the design reaches."""
        return max(rung for rung in Rung if not self.missing_for(rung))

    @property
    def confounds(self) -> tuple[str, ...]:
        """Factors that differ or that nobody recorded, the ablated component apart."""
        return tuple(
            factor for factor in FACTORS if factor != "component" and self.state(factor) != "held"
        )
