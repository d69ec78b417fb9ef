"""The lab's questions asked of llama.cpp through llama-cpp-python's high-level API.

A question is a function under `@question(id)`: with the id of one of the lab's probes it answers
for this stack, with a new id and words of its own it is one that only this stack can be asked.
Nothing here is asked by the probes of transformers, so their answers do not depend on it.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from labkit.probes.llamacpp._registry import (
    ask_question,
    find_question,
    list_questions,
    no_such_option,
    question,
)

for _module in sorted(info.name for info in iter_modules(__path__)):
    if not _module.startswith("_"):
        import_module(f"{__name__}.{_module}")

__all__ = ["ask_question", "find_question", "list_questions", "no_such_option", "question"]
