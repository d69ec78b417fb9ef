"""Read a checkpoint's config.json into a `ModelSpec`, without torch or transformers.

The public face of `labkit.config_reading`, where each idea has a file of its own.
"""

from __future__ import annotations

from labkit.config_reading.files import iter_config_files, read_config_file
from labkit.config_reading.fingerprinting import fingerprint
from labkit.config_reading.types import LayerCache, ModelSpec, RopeScaling, SlidingWindow

__all__ = [
    "LayerCache",
    "ModelSpec",
    "RopeScaling",
    "SlidingWindow",
    "fingerprint",
    "iter_config_files",
    "read_config_file",
]
