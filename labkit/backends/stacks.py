"""The stacks by name."""

from __future__ import annotations

from collections.abc import Callable

from labkit.backends import Stack
from labkit.backends.llamacpp_stack import LlamaCppStack
from labkit.backends.transformers_stack import TransformersStack
from labkit.errors import KnobError

STACKS: dict[str, Callable[..., Stack]] = {
    "transformers": TransformersStack,
    "llamacpp": LlamaCppStack,
}


def require_stack(name: str) -> None:
    """Refuse a name that no stack has.

    Raises:
        KnobError: If no stack has that name.
    """
    if name not in STACKS:
        raise KnobError(f"--stack must be one of {', '.join(STACKS)}; got stack={name!r}.")


def open_stack(
    name: str, model: str, *, dtype: str, device: str, revision: str | None = None
) -> Stack:
    """Return a model on a stack; it is loaded when it is first needed.

    Raises:
        KnobError: If no stack has that name.
    """
    require_stack(name)
    return STACKS[name](model, dtype=dtype, device=device, revision=revision)
