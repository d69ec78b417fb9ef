"""Options that run a model's layers as one compiled or recorded program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from labkit.backends.transformers import TransformersBackend, TransformersSession
from labkit.errors import KnobError, NotApplicable
from labkit.knobs.registry import Row, knob

COMPILERS = ("inductor", "aot_eager", "cudagraphs")


@dataclass(slots=True)
class Programs:
    """Compiles the graphs that torch traces, and counts how often one of them ran."""

    compiler: str
    runs: int = 0

    def __call__(self, graph: Any, inputs: list[Any]) -> Callable[..., Any]:
        """Return a traced graph as a compiled program."""
        # The way that torch documents for a backend of one's own; it imports a compiler.
        from torch._dynamo import lookup_backend

        program = lookup_backend(self.compiler)(graph, inputs)

        def run(*arguments: Any) -> Any:
            self.runs += 1
            return program(*arguments)

        return run


@dataclass(slots=True, kw_only=True)
class Compiled(TransformersSession):
    """A session that looks whether each of its passes ran a compiled program."""

    programs: Programs

    def _pass(self, ids: Tensor, *, keep: int) -> Tensor:
        before, earlier = self.programs.runs, self.observed.get("compiled")
        logits = TransformersSession._pass(self, ids, keep=keep)
        ran = self.programs.runs > before and earlier in (None, self.programs.compiler)
        self.observed["compiled"] = self.programs.compiler if ran else "not every pass"
        return logits


def _known_compiler(*, by: str) -> None:
    if by not in COMPILERS:
        raise KnobError(f"compiled: by must be one of {', '.join(COMPILERS)}; got {by!r}.")


@knob(
    kind="runtime",
    label="compiled by {by}",
    rows=[Row(table="more"), Row({"by": "cudagraphs"}, table="more")],
    check=_known_compiler,
    expect=lambda group, *, by: {"compiled": by},
)
def compiled(
    backend: TransformersBackend, *, by: str = "inductor"
) -> Iterator[TransformersBackend]:
    """Run the model through torch.compile, one factor at a time.

    `aot_eager` only traces and keeps the kernels, `inductor` also writes kernels of its own (in
    C++ on a CPU, so it needs a compiler), `cudagraphs` records the kernels' launches.
    """
    model = backend.model
    if by == "cudagraphs" and model.device.type != "cuda":
        raise NotApplicable(
            f"CUDA graphs are recorded on a CUDA device; got device={model.device}."
        )
    programs = Programs(by)
    session_kind = functools.partial(Compiled, programs=programs)
    model.forward = torch.compile(model.forward, backend=programs, dynamic=True)
    try:
        variant = replace(backend, session_kind=session_kind)
        _compile_once(variant)
        yield variant
    finally:
        del model.forward
        torch.compiler.reset()


def _compile_once(variant: TransformersBackend) -> None:
    from torch._dynamo.exc import TorchDynamoException

    try:
        variant.next_logits([0, 0])
    except TorchDynamoException as problem:
        reason = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise NotApplicable(
            f"torch.compile has no program for this model here: {reason}"
        ) from problem
