"""Options that stretch rotary positions beyond the length a model was made for."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from labkit.backends.transformers import TransformersBackend
from labkit.errors import KnobError, NotApplied
from labkit.knobs.model import _rotary_module
from labkit.knobs.registry import Row, knob

KINDS = ("linear", "dynamic", "yarn")


def _sensible_stretch(*, kind: str, factor: float, original: int) -> None:
    if kind not in KINDS:
        raise KnobError(f"stretched_rope: kind must be one of {', '.join(KINDS)}; got {kind!r}.")
    if not 1 <= factor < math.inf or original < 1:
        raise KnobError(
            "stretched_rope: factor and original must be at least 1; got "
            f"factor={factor}, original={original}."
        )


@knob(
    kind="model",
    label="{kind} RoPE, {factor} times {original}",
    rows=[Row({"kind": kind}, prompts="few", table="more") for kind in ("yarn", "dynamic")],
    check=_sensible_stretch,
)
def stretched_rope(
    backend: TransformersBackend, *, kind: str = "yarn", factor: float = 2.0, original: int = 64
) -> Iterator[TransformersBackend]:
    """Impose a RoPE scaling of `factor` over an original length of `original` positions.

    Yarn changes the function at every length; dynamic scaling from the first call whose
    positions pass the original length, so it needs prompts that do.
    """
    (parent, name), rotary = _rotary_module(backend.model)
    config = copy.deepcopy(rotary.config)
    theta = {k: config.rope_parameters[k] for k in ("rope_theta",) if k in config.rope_parameters}
    config.rope_parameters = theta | {
        "rope_type": kind,
        "factor": factor,
        "original_max_position_embeddings": original,
    }
    config.max_position_embeddings = original
    changed = type(rotary)(config=config).to(rotary.inv_freq.device)
    if kind != "dynamic" and torch.equal(changed.inv_freq.float(), rotary.inv_freq.float()):
        raise NotApplied("stretched_rope: the live frequencies did not change.")
    setattr(parent, name, changed)
    try:
        yield replace(
            backend, changes=backend.changes | {"rope_parameters": config.rope_parameters}
        )
    finally:
        setattr(parent, name, rotary)
