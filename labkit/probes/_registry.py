"""The probes by name, and what they are given to run with."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from labkit.errors import ProbeError
from labkit.files import data_file
from labkit.probes._result import Evidence

ProbeFunction = Callable[["ProbeContext"], Evidence]


class ProbeContext:
    """What a probe may use: a model and a tokenizer, loaded when first asked for, and a device.

    Args:
        load_model: Returns the causal language model; without it tiny random models stand in.
        load_tokenizer: Returns its tokenizer; without it a tiny one stands in.
        model_name: What to call that model in the evidence.
        device: Where models run, as torch spells it.
    """

    def __init__(
        self,
        *,
        load_model: Callable[[], Any] | None = None,
        load_tokenizer: Callable[[], Any] | None = None,
        model_name: str = "a tiny random model",
        device: str = "cpu",
    ) -> None:
        self._load_model = load_model
        self._load_tokenizer = load_tokenizer
        self._model: Any = None
        self._tokenizer: Any = None
        self.model_name = model_name
        self.device = device

    @property
    def has_model(self) -> bool:
        """Whether a real model was given."""
        return self._load_model is not None

    @property
    def has_tokenizer(self) -> bool:
        """Whether a real tokenizer was given."""
        return self._load_tokenizer is not None

    def model(self) -> Any:
        """Return the given model, loaded once.

        Raises:
            ProbeError: If none was given.
        """
        if self._model is None:
            self._model = _call(self._load_model, what="model")
        return self._model

    def tokenizer(self) -> Any:
        """Return the given tokenizer, loaded once.

        Raises:
            ProbeError: If none was given.
        """
        if self._tokenizer is None:
            self._tokenizer = _call(self._load_tokenizer, what="tokenizer")
        return self._tokenizer


def _call(load: Callable[[], Any] | None, *, what: str) -> Any:
    if load is None:
        raise ProbeError(
            f"The context must hold a {what}; got load_{what}=None. "
            f"Pass ProbeContext(load_{what}=…), or let the probe use its stand-in."
        )
    return load()


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One request that the stack may not honour.

    Attributes:
        id: The name it is asked for by.
        number: Its place in the table of thirteen, None for one beyond them.
        asks: What is requested, in words.
        needs: What it uses of the context where that is given: "model", "tokenizer".
        function: Runs it.
    """

    id: str
    number: int | None
    asks: str
    needs: tuple[str, ...]
    function: ProbeFunction

    @property
    def group(self) -> str:
        """Return "thirteen" for the table's own probes, "beyond" for the rest."""
        return "beyond" if self.number is None else "thirteen"


REGISTRY: dict[str, Probe] = {}


def probe(
    probe_id: str, *, asks: str, number: int | None = None, needs: Sequence[str] = ()
) -> Callable[[ProbeFunction], ProbeFunction]:
    """Register a function as a probe.

    Raises:
        ProbeError: If the id or the number is taken.
    """

    def register(function: ProbeFunction) -> ProbeFunction:
        taken = [p for p in REGISTRY.values() if number is not None and p.number == number]
        taken += [REGISTRY[probe_id]] if probe_id in REGISTRY else []
        if taken:
            raise ProbeError(
                f"A probe's id and number must be its own; got id={probe_id!r}, number={number}, "
                f"taken by {taken[0].id!r} (number={taken[0].number}). Choose another."
            )
        REGISTRY[probe_id] = Probe(
            id=probe_id, number=number, asks=asks, needs=tuple(needs), function=function
        )
        return function

    return register


def list_probes(group: str | None = None) -> list[Probe]:
    """Return the probes, the thirteen by number first, then those beyond them by name."""
    chosen = [p for p in REGISTRY.values() if group is None or p.group == group]
    return sorted(chosen, key=lambda p: (p.number is None, p.number or 0, p.id))


def find_probe(probe_id: str) -> Probe:
    """Return a probe by its id, or by its number written as text.

    Raises:
        ProbeError: If there is none; the message names near ones.
    """
    by_number = {str(p.number): p for p in REGISTRY.values() if p.number is not None}
    found = REGISTRY.get(probe_id) or by_number.get(probe_id)
    if found is not None:
        return found
    near = difflib.get_close_matches(probe_id, REGISTRY, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(_names())}."
    raise ProbeError(f"A probe must be one of the registered ones; got probe={probe_id!r}. {hint}")


def _names() -> Iterator[str]:
    return (probe.id for probe in list_probes())


@cache
def read_probe_data(name: str) -> Any:
    """Return one of the probes' data files, parsed."""
    return json.loads(data_file("probes", f"{name}.json").read_text(encoding="utf-8"))


def source_outcome(probe_id: str) -> str | None:
    """Return what the source chapter's stack did with a probe, or None for one it lacks."""
    rows = read_probe_data("source")["probes"]
    return next((row["outcome"] for row in rows if row["probe"] == probe_id), None)
