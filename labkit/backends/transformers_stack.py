"""A model on the transformers stack: loaded once, and cast to the precisions asked for."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence

import torch

from labkit import models
from labkit.backends import Backend
from labkit.backends.observing import observe_run, resolve_model
from labkit.backends.transformers import TransformersBackend
from labkit.record import describe_device


class TransformersStack:
    """See `labkit.backends.Stack`; keeps the model in the dtype it was loaded in."""

    def __init__(
        self, model: str, *, dtype: str, device: str = "cpu", revision: str | None = None
    ) -> None:
        """Name a model; it is loaded when it is first needed.

        Args:
            model: `embedded`, a local folder, or a hub id.
            dtype: The dtype that its weights are loaded in; other precisions are cast from it.
            device: A torch device.
            revision: Required for a hub id.
        """
        self._model = model
        self._dtype = dtype
        self._device = device
        self._revision = revision
        self._kept: models.LoadedModel | None = None
        self._described: models.LoadedModel | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return the model's name and not its weights: each process loads its own."""
        return self.__dict__ | {"_kept": None, "_described": None}

    @property
    def described(self) -> models.LoadedModel:
        """The model without its weights, which outlives `forget`.

        A run with nothing left to measure needs no more than this.
        """
        if self._described is None:
            self._described = models.describe(
                self._model, dtype=self._dtype, device=self._device, revision=self._revision
            )
        return self._described

    @property
    def loaded(self) -> models.LoadedModel:
        """The model as it was loaded."""
        if self._kept is None:
            self._kept = models.load(
                self._model, dtype=self._dtype, device=self._device, revision=self._revision
            )
        return self._kept

    @property
    def identity(self) -> dict[str, object]:
        """See `labkit.backends.Stack.identity`."""
        source = self.described.source
        return {
            "name": source.name,
            "origin": source.origin,
            "revision": source.revision,
            "digest": self.described.digest,
            "files": self.described.files,
        }

    @property
    def positions(self) -> int | None:
        """See `labkit.backends.Stack.positions`."""
        return self.described.positions

    def encode(self, text: str) -> list[int]:
        """See `labkit.backends.Stack.encode`."""
        ids: list[int] = self.described.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """See `labkit.backends.Stack.decode`."""
        text: str = self.described.tokenizer.decode(list(ids))
        return text

    def backend(self, precision: str) -> TransformersBackend:
        """See `labkit.backends.Stack.backend`."""
        loaded = self.loaded
        same = precision == loaded.dtype
        return TransformersBackend(loaded=loaded if same else models.cast(loaded, precision))

    def altered_by_cast(self, precision: str) -> tuple[int, int]:
        """See `labkit.backends.Stack.altered_by_cast`."""
        return models.altered_by_cast(self.loaded, precision)

    def depends(self) -> dict[str, object]:
        """See `labkit.backends.Stack.depends`."""
        versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers")}
        return {
            "model": self.described.digest,
            "versions": versions,
            "loaded_as": self._dtype,
            "device": str(torch.device(self._device)),
            "accelerator": describe_device().get("accelerator"),
            "processor": describe_device().get("processor"),
            "threads": torch.get_num_threads(),
        }

    def observe(self, precision: str, ids: Sequence[int]) -> dict[str, object]:
        """See `labkit.backends.Stack.observe`."""
        return observe_run(self.backend(precision), ids)

    def resolved(self) -> dict[str, object]:
        """See `labkit.backends.Stack.resolved`."""
        return resolve_model(self.described)

    def is_copy(self, variant: Backend, of: Backend) -> bool:
        """See `labkit.backends.Stack.is_copy`."""
        return getattr(variant, "loaded", None) is not getattr(of, "loaded", None)

    def collect(self) -> None:
        """See `labkit.backends.Stack.collect`."""
        models.release()

    def forget(self) -> None:
        """See `labkit.backends.Stack.forget`."""
        if self._kept is not None:  # a run with nothing left to measure has nothing to collect
            self._kept = None
            self.collect()
