"""Where a model comes from: a published one, a local folder, or a hub id with a revision."""

from labkit.models.catalogue import (
    CATALOGUE,
    EMBEDDED,
    Published,
    Wheel,
    cache_root,
    gguf_place,
    is_fetched,
    model_folder,
    published,
    remove,
)
from labkit.models.converting import quiet_transformers
from labkit.models.fetching import fetch, fetch_gguf
from labkit.models.gguf_files import WRITTEN, find_gguf, written_out
from labkit.models.loading import (
    DTYPES,
    LoadedModel,
    altered_by_cast,
    cast,
    describe,
    load,
    release,
)
from labkit.models.sources import Source, resolve

__all__ = [
    "CATALOGUE",
    "DTYPES",
    "EMBEDDED",
    "WRITTEN",
    "LoadedModel",
    "Published",
    "Source",
    "Wheel",
    "altered_by_cast",
    "cache_root",
    "cast",
    "describe",
    "fetch",
    "fetch_gguf",
    "find_gguf",
    "gguf_place",
    "is_fetched",
    "load",
    "model_folder",
    "published",
    "quiet_transformers",
    "release",
    "remove",
    "resolve",
    "written_out",
]
