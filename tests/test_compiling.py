"""Compiled and recorded programs: seen to run in every pass, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch
from torch._dynamo.exc import TorchDynamoException

from labkit.errors import NotApplicable, NotApplied
from labkit.harness import follow
from labkit.knobs import parse_option

REORDERED = 1e-3


def _along(backend: object, ids: list[int], **more: object) -> np.ndarray:
    return np.concatenate(list(follow(backend, [ids], [[4, 5, 6, 7]], **more)))


def _compare(spelled: str) -> float:
    option, backend = parse_option(spelled), tiny.backend()
    ids = tiny.prompt_ids(backend, tokens=20)
    plain = _along(backend, ids)
    with option.applied(backend) as variant:
        moved = float(np.abs(_along(variant, ids, expect=option.expected([])) - plain).max())

    assert np.array_equal(plain, _along(backend, ids)), "the model stayed compiled"
    return moved


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("by", ["aot_eager", "inductor"])
def test_a_compiled_model_runs_its_program_in_every_pass(by: str) -> None:
    """Prompt and steps run the traced program, which moves logits by rounding at most."""
    assert _compare(f"compiled:by={by}") < REORDERED


@pytest.mark.gpu
def test_recorded_launches_compute_the_same() -> None:
    """On a CUDA device the recorded kernels move logits by rounding at most."""
    option, backend = parse_option("compiled:by=cudagraphs"), tiny.backend()
    backend.model.to("cuda")
    ids = tiny.prompt_ids(backend, tokens=20)
    plain = _along(backend, ids)
    with option.applied(backend) as variant:
        moved = np.abs(_along(variant, ids, expect=option.expected([])) - plain).max()

    assert moved < REORDERED


def test_graphs_are_refused_without_a_gpu() -> None:
    """What can only be recorded on a CUDA device says so on another."""
    with (
        pytest.raises(NotApplicable) as refusal,
        parse_option("compiled:by=cudagraphs").applied(tiny.backend()),
    ):
        pass

    assert str(refusal.value) == "CUDA graphs are recorded on a CUDA device; got device=cpu."


def test_a_compiler_that_fails_is_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch cannot compile, without a C++ compiler say, the beginning of why is kept."""

    def fail(*_: object, **__: object) -> object:
        raise TorchDynamoException("inductor raised:\nNo working C++ compiler found\n" + "x" * 900)

    monkeypatch.setattr(torch, "compile", lambda *_, **__: fail)
    with (
        pytest.raises(NotApplicable) as refusal,
        parse_option("compiled").applied(tiny.backend()),
    ):
        pass

    assert str(refusal.value).startswith(
        "torch.compile has no program for this model here: "
        "inductor raised: No working C++ compiler found xxx"
    )
    assert len(str(refusal.value)) < 300


def test_a_model_that_is_not_compiled_is_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch falls back to the plain model in silence, the row is not applied."""
    monkeypatch.setattr(torch, "compile", lambda forward, **_: forward)
    backend = tiny.backend()
    option = parse_option("compiled")
    with (
        pytest.raises(NotApplied, match="the stack did compiled='not every pass'"),
        option.applied(backend) as variant,
    ):
        _along(variant, tiny.prompt_ids(backend, tokens=6), expect=option.expected([]))

    assert "forward" not in vars(backend.model)
