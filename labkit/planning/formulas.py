"""The registry of formulas: functions of quantities that a case can call by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from labkit.errors import PlanningError
from labkit.planning.quantity import Quantity

Formula = Callable[..., Quantity]
_F = TypeVar("_F", bound=Formula)

FORMULAS: Final[dict[str, Formula]] = {}


def formula(function: _F) -> _F:
    """Register a function from quantities to a quantity under its own name."""
    FORMULAS[function.__name__] = function
    return function


def apply_formula(name: str, inputs: Mapping[str, Quantity]) -> Quantity:
    """Call a formula by its name.

    Raises:
        PlanningError: If there is no such formula, or its inputs have other names.
    """
    if name not in FORMULAS:
        near = difflib.get_close_matches(name, FORMULAS, n=1) or sorted(FORMULAS)
        raise PlanningError(f"A formula must be a known one; got {name!r}. Try {', '.join(near)}.")
    try:
        inspect.signature(FORMULAS[name]).bind(**inputs)
    except TypeError as error:
        raise PlanningError(
            f"The inputs of {name} must be the ones it names; "
            f"got {', '.join(inputs) or 'none'}: {error}."
        ) from error
    return FORMULAS[name](**inputs)
