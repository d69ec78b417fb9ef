"""What is asked of llama.cpp: the lab's own questions, and those that only this stack has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from labkit.errors import ProbeError
from labkit.probes._registry import REGISTRY, Probe, ProbeContext, ProbeFunction, find_probe
from labkit.probes._registry import list_probes as list_shared
from labkit.probes._result import Evidence, ProbeResult, judge, not_askable
from labkit.probes._run import _gather


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registered:
    asks: str | None
    function: ProbeFunction


_QUESTIONS: dict[str, _Registered] = {}


def question(probe_id: str, *, asks: str | None = None) -> Callable[[ProbeFunction], ProbeFunction]:
    """Register the function below as this stack's answer to one question.

    Args:
        probe_id: The id of one of the lab's probes, or a new one.
        asks: What is requested, in words; only for a question that no probe of the lab asks.

    Raises:
        ProbeError: If the question has an answer already.
    """

    def register(function: ProbeFunction) -> ProbeFunction:
        if probe_id in _QUESTIONS:
            raise ProbeError(
                f"A question must be answered once a stack; got probe={probe_id!r} twice. "
                "Choose another id, or remove one of both."
            )
        _QUESTIONS[probe_id] = _Registered(asks=asks, function=function)
        return function

    return register


def no_such_option(probe_id: str, why: str) -> None:
    """Register that this stack's API has no option by which the question could be asked."""
    question(probe_id)(lambda _: not_askable(why))


def list_questions() -> list[Probe]:
    """Return the lab's probes in their order, then this stack's own questions by name."""
    own = sorted(name for name in _QUESTIONS if name not in REGISTRY)
    return [find_question(name) for name in [*(probe.id for probe in list_shared()), *own]]


def find_question(probe_id: str) -> Probe:
    """Return a question by its id; one of the lab's keeps its number and its words.

    Raises:
        ProbeError: If there is none.
    """
    if probe_id not in _QUESTIONS:
        return replace(find_probe(probe_id), needs=(), function=_not_put_yet)
    found, shared_probe = _QUESTIONS[probe_id], REGISTRY.get(probe_id)
    return Probe(
        id=probe_id,
        number=shared_probe.number if shared_probe else None,
        asks=found.asks or (shared_probe.asks if shared_probe else ""),
        needs=(),
        function=found.function,
    )


def _not_put_yet(_: ProbeContext) -> Evidence:
    return not_askable("nobody has put this question to llama.cpp yet")


def ask_question(probe_id: str, context: ProbeContext | None = None) -> ProbeResult:
    """Ask one thing of llama.cpp and return its row.

    Raises:
        ProbeError: If there is no such question.
    """
    chosen = find_question(probe_id)
    evidence: Evidence = _gather(chosen, context or ProbeContext())
    return judge(evidence, probe=chosen.id, number=chosen.number, asked=chosen.asks)
