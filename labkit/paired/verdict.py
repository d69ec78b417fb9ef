"""What a contract answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Answer = Literal["holds", "does not hold", "undetermined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a contract says about two sets of outputs.

    Attributes:
        contract: `bitwise`, `task` or `statistical`.
        answer: `holds`, `does not hold` or `undetermined`.
        sentence: The answer with its numbers.
        numbers: They, by name.
        not_evaluated: What the contract did not look at.
    """

    contract: str
    answer: Answer
    sentence: str
    numbers: Mapping[str, object] = field(default_factory=dict)
    not_evaluated: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain JSON."""
        return asdict(self) | {"not_evaluated": list(self.not_evaluated)}
