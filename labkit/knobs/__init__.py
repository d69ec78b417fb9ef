"""Options of a stack, one registered function each.

A knob is a context manager that takes a backend and yields a changed one. To add one, write
a function with `@knob` in any file of this folder, or in a module of your own and name it
`module:function`; nothing else is edited.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")  # registers its knobs

from labkit.knobs.model import fake_quantise_linears  # noqa: E402  # after all are registered
from labkit.knobs.registry import (  # noqa: E402  # after all are registered
    KNOBS,
    Knob,
    Option,
    Prompt,
    Row,
    knob,
    parse_option,
    preservation_table,
)

__all__ = [
    "KNOBS",
    "Knob",
    "Option",
    "Prompt",
    "Row",
    "fake_quantise_linears",
    "knob",
    "parse_option",
    "preservation_table",
]
