"""The model families, a file for each group; a new file here is found without registration.

A module's `FAMILIES` is a tuple of `Family`. `family_of` looks them up by model type or by
the name of the class that `architectures` lists.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules

from labkit.config_reading.family import Family, plain_name


def _collect() -> dict[str, Family]:
    found: dict[str, Family] = {}
    for module in sorted(info.name for info in iter_modules(__path__)):
        for family in import_module(f"{__name__}.{module}").FAMILIES:
            for model_type in family.model_types:
                key = plain_name(model_type)
                if key in found:
                    raise RuntimeError(f"Two families claim the model type {model_type!r}.")
                found[key] = family
    return found


BY_NAME = _collect()

_HEADS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "Model")


@lru_cache(maxsize=1024)
def family_of(model_type: str | None) -> Family | None:
    """Return the family of a model type, None where none claims it."""
    return None if model_type is None else BY_NAME.get(plain_name(model_type))


def family_of_architecture(architecture: str) -> Family | None:
    """Return the family whose model type gives this class its name."""
    for head in _HEADS:
        if architecture.endswith(head):
            return BY_NAME.get(plain_name(architecture.removesuffix(head)))
    return None
