"""The heavy libraries, loaded when a probe runs: listing or naming probes does not need them.

They come back as `Any`: their own annotations are partial, and what crosses this border is
annotated on our side.
"""

from __future__ import annotations

import importlib
from typing import Any


def torch_library() -> Any:
    """Return torch."""
    return importlib.import_module("torch")


def transformers_library() -> Any:
    """Return transformers."""
    return importlib.import_module("transformers")
