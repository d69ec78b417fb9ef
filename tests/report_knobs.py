"""Knobs of a module of one's own, for reports whose fault no registered option has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from labkit.backends.transformers import TransformersBackend, TransformersSession
from labkit.knobs import knob


@dataclass(slots=True, kw_only=True)
class ShortMasked(TransformersSession):
    """A session whose mask covers the new tokens of each call and not what is cached."""

    def _inputs(self, ids: Tensor, start: int) -> dict[str, Any]:
        places = torch.arange(start, self._seen).expand(ids.shape[0], -1)
        return {"attention_mask": torch.ones_like(ids), "position_ids": places}


@knob(kind="model", label="mask of the new tokens only")
def short_mask(backend: TransformersBackend) -> Iterator[TransformersBackend]:
    """Mask the new tokens of each call only."""
    yield replace(backend, session_kind=ShortMasked)
