"""What a comparison is allowed to find, declared before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labkit.errors import OutputsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is acceptable, declared before the comparison is made.

    Attributes:
        max_lost: Largest number of items that may go from right to wrong; None sets no limit.
        max_net_loss: Largest loss of the score, in percentage points, that its interval may reach.
        max_different: Largest percentage of outputs that may differ; None sets no limit.
        margin: Largest difference of two aggregate scores, in percentage points.
    """

    max_lost: int | None = None
    max_net_loss: float = 2.0
    max_different: float | None = None
    margin: float = 2.0

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> Limits:
        """Read limits, refusing unknown names and what is no number of at least 0.

        Raises:
            OutputsError: Naming the field.
        """
        for name, value in stored.items():
            if name not in cls.__dataclass_fields__:
                known = ", ".join(cls.__dataclass_fields__)
                raise OutputsError(f"limits are {known}; got {name!r}.")
            optional = value is None and name in ("max_lost", "max_different")
            holds, what = _COUNT if name == "max_lost" else _PERCENT
            if not optional and not holds(value):
                raise OutputsError(f"{name} must be {what}; got {name}={value!r}.")
        return cls(**stored)  # type: ignore[arg-type]  # names and types checked above


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_percent(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 100  # type: ignore[operator]  # a number


_COUNT = (_is_count, "a whole number of at least 0")
_PERCENT = (_is_percent, "a number from 0 to 100")
