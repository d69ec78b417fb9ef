"""Where a model comes from: a published one, a local folder, or a hub id with a revision."""

from labkit.models.catalogue import (
    CATALOGUE,
    EMBEDDED,
    Published,
    cache_root,
    is_fetched,
    model_folder,
    published,
    remove,
)
from labkit.models.converting import quiet_transformers
from labkit.models.fetching import fetch
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
    "LoadedModel",
    "Published",
    "Source",
    "altered_by_cast",
    "cache_root",
    "cast",
    "describe",
    "fetch",
    "is_fetched",
    "load",
    "model_folder",
    "published",
    "quiet_transformers",
    "release",
    "remove",
    "resolve",
]
