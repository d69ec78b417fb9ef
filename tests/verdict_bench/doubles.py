"""How exact is the float64 reference? The library computes norms and softmaxes in float32.

Its layers cast to float32 on purpose, since they were written for 16-bit weights, and do so in a
float64 model as well. Here those casts are left out, and what they amounted to is measured in
units of what it should measure: float32's own distance.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from labkit import models
from labkit.backends.transformers import TransformersBackend
from labkit.harness import distance_rms, follow, greedy
from labkit.harness.compare import significant
from verdict_bench.subjects import Subject

_TO_FLOAT32 = (Tensor.to, Tensor.type)


class Doubles(TorchFunctionMode):
    """Within it no float64 tensor becomes a float32 one.

    The rotary tables stay float32: they are made from float32 frequencies, alike in baseline,
    variant and reference, so they are part of the function and of nobody's rounding.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run a torch function, or leave it out where it would only cast a double."""
        named = dict(kwargs or {})
        double = bool(args) and isinstance(args[0], Tensor) and args[0].dtype is torch.float64
        if double and func is Tensor.float:
            return args[0]
        if double and func in _TO_FLOAT32 and torch.float32 in (*args[1:], named.get("dtype")):
            return args[0]
        if double and named.get("dtype") is torch.float32:
            named["dtype"] = torch.float64
        return func(*args, **named)


def reference_share(subject: Subject) -> float:
    """Return the reference's distance from one kept in doubles, in units of float32's."""
    loaded = subject.make()
    plain, exact = (
        TransformersBackend(loaded=models.cast(loaded, dtype)) for dtype in ("float32", "float64")
    )
    shares = []
    for prompt in subject.prompt_list(loaded):
        tokens = greedy(plain, prompt.ids, steps=subject.steps).tokens
        runs = [follow(backend, [prompt.ids], [tokens]) for backend in (plain, exact)]
        with_casts = [row[0] for row in runs[1]]
        with Doubles():
            kept = [row[0] for row in follow(exact, [prompt.ids], [tokens])]
        for ours, theirs, true in zip(runs[0], with_casts, kept, strict=True):
            shares.append(distance_rms(theirs, true) / distance_rms(ours[0], true))
    return significant(statistics.median(shares))
