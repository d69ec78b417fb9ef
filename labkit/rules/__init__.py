"""The rules of admission, one idea a file.

Every module here whose name has no leading underscore holds rules: `Rule` objects at module
level, beside their check and their examples. Adding one edits nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil

from labkit.rules._reason import Rule


def _find_rules() -> tuple[Rule, ...]:
    """Return every rule in the order of module names, then of definition."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{n}") for n in names if not n.startswith("_")]
    found = (value for module in modules for value in vars(module).values())
    # By identity: a module may import another's rule, and rules have no hash.
    return tuple({id(value): value for value in found if isinstance(value, Rule)}.values())


RULES = _find_rules()

__all__ = ["RULES"]
