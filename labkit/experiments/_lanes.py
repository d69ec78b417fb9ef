"""The passes of one precision: baselines, their reference, and the options compared with them.

Logits are written to the run's `work` folder a step at a time and read back a step at a
time, so memory does not grow with prompts or steps. What was measured is in the journal;
the arrays are only needed while options are still to be run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from labkit.backends import Backend, Logits, Stack
from labkit.errors import NotApplicable, NotApplied
from labkit.experiments._arrays import Rows, is_whole, read_rows
from labkit.files import digest_of
from labkit.harness import Baseline, Run, Trace, compare, follow, greedy
from labkit.harness.compare import centred_difference, distance_rms, significant
from labkit.harness.traces import NotFinite
from labkit.journal import Journal
from labkit.knobs import Option, Prompt

Tick = Callable[[str], None]
Unit = tuple[list[Prompt], str, str]
"""Prompts that run together, the name under which the journal holds them, and the digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSize:
    """What one lane runs.

    Attributes:
        precision: The dtype of baseline and variants.
        reference: The dtype of the reference.
        prompts: The prompts, as token ids.
        few: How many of them the options with few prompts take.
        steps: Tokens generated after each.
        go_on: Whether a variant that left the baseline is run once more, along its own tokens,
            for the reader of both texts.
    """

    precision: str
    reference: str
    prompts: tuple[Prompt, ...]
    few: int
    steps: int
    go_on: bool = True

    def prompts_of(self, option: Option) -> tuple[Prompt, ...]:
        """Return the prompts an option is run on."""
        return self.prompts[: self.few] if option.prompts == "few" else self.prompts


class LaneRunner:
    """Runs a lane's passes, each once: what the journal holds is not run again."""

    def __init__(
        self,
        size: LaneSize,
        *,
        stack: Stack,
        journal: Journal,
        work: Path,
        depends: dict[str, object],
        tick: Tick,
    ) -> None:
        """Prepare a lane; nothing is loaded before it is needed.

        Args:
            size: Precisions, prompts and steps.
            stack: The model on its stack.
            journal: What was measured so far.
            work: A folder for arrays.
            depends: Everything else the numbers depend on (model digest, versions, device).
            tick: Called after each pass with its name.
        """
        self.size = size
        self._stack = stack
        self._journal = journal
        self._work = work
        self._depends = depends
        self._tick = tick
        self._told: set[str] = set()
        self.baselines: dict[str, Baseline] = {}

    @cached_property
    def backend(self) -> Backend:
        """The baseline, made on first use."""
        return self._stack.backend(self.size.precision)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker process needs: it measures, and leaves the journal alone."""
        state = self.__dict__ | {"_journal": None, "_tick": None}
        return {name: value for name, value in state.items() if name != "backend"}

    def close(self) -> None:
        """Drop the baseline."""
        self.__dict__.pop("backend", None)

    # ---- units --------------------------------------------------------------------------

    def _unit(self, kind: str, prompts: Sequence[Prompt], **more: object) -> tuple[str, str]:
        names = "+".join(prompt.name for prompt in prompts)
        unit = f"{self.size.precision}/{kind}/{names}"
        digest = digest_of(
            {
                **self._depends,
                "unit": unit,
                "reference": self.size.reference,
                "steps": self.size.steps,
                "ids": [list(prompt.ids) for prompt in prompts],
                **more,
            }
        )
        return unit, digest

    def _array(self, unit: str, digest: str) -> Path:
        return self._work / f"{unit.replace('/', '-')}-{digest[:12]}.npy"

    # ---- baselines and their reference --------------------------------------------------

    def prepare(self, options: Sequence[Option]) -> None:
        """Run baseline and reference for every prompt that the options compare with.

        Their arrays are only made where an option is still to be run.
        """
        wanted = dict.fromkeys(self.size.prompts)
        for option in options:
            for group in option.groups(self.size.prompts_of(option)):
                wanted.update(dict.fromkeys(group))
        missing = [option for option in options if not self._is_measured(option)]
        prompts = list(wanted)
        traces = {p.name: self._baseline_trace(p, keep=bool(missing)) for p in prompts}
        if all(self._has_reference(p, keep=bool(missing)) for p in prompts):
            reference = None
        else:
            reference = self._stack.backend(self.size.reference)
        for prompt in prompts:
            self.baselines[prompt.name] = self._with_reference(
                prompt, traces[prompt.name], reference, keep=bool(missing)
            )
        if reference is not None:
            del reference
            self._stack.collect()

    def _baseline_trace(self, prompt: Prompt, *, keep: bool) -> Trace:
        unit, digest = self._unit("baseline", [prompt])
        path = self._array(unit, digest)
        keep = keep or not self._has_reference(prompt, keep=False)
        if not self._journal.has(unit, digest=digest) or (keep and not is_whole(path)):
            with Rows(path, steps=self.size.steps) as rows:
                trace = greedy(self.backend, prompt.ids, steps=self.size.steps, on_step=rows.write)
            value = {"tokens": list(trace.tokens), "margins": list(trace.margins)}
            self._journal.append(unit, digest=digest, value=value)
        self._tick(unit)
        stored = self._journal.value(unit, digest=digest)
        return Trace(tokens=tuple(stored["tokens"]), margins=tuple(stored["margins"]))

    def _has_reference(self, prompt: Prompt, *, keep: bool) -> bool:
        unit, digest = self._unit("reference", [prompt])
        stands = self._journal.has(unit, digest=digest)
        return stands and (not keep or is_whole(self._array(unit, digest)))

    def _with_reference(
        self, prompt: Prompt, trace: Trace, backend: Backend | None, *, keep: bool
    ) -> Baseline:
        base_path = self._array(*self._unit("baseline", [prompt]))
        unit, digest = self._unit("reference", [prompt])
        path = self._array(unit, digest)
        if backend is not None and not self._has_reference(prompt, keep=keep):
            value = self._follow_reference(backend, prompt, trace, path=path, base_path=base_path)
            self._journal.append(unit, digest=digest, value=value)
        self._tick(unit)
        stored = self._journal.value(unit, digest=digest)
        return Baseline(
            prompt=prompt.name,
            ids=prompt.ids,
            trace=trace,
            logits=_NOT_OPENED,
            reference=_NOT_OPENED,
            error_rms=np.asarray(stored["error_rms"], dtype=np.float64),
            error_max=np.asarray(stored["error_max"], dtype=np.float64),
        )

    def _follow_reference(
        self,
        backend: Backend,
        prompt: Prompt,
        trace: Trace,
        *,
        path: Path,
        base_path: Path,
    ) -> dict[str, list[float]]:
        logits = read_rows(base_path)
        rms: list[float] = []
        largest: list[float] = []
        with Rows(path, steps=self.size.steps) as rows:
            for step, answer in enumerate(follow(backend, [prompt.ids], [trace.tokens])):
                rows.write(step, answer[0])
                rms.append(significant(distance_rms(logits[step], answer[0])))
                off = centred_difference(logits[step], answer[0])
                largest.append(significant(float(np.abs(off).max())))
        return {"error_rms": rms, "error_max": largest}

    def _opened(self, prompt: Prompt) -> Baseline:
        """Return a baseline with its arrays open; they are mapped only while it is in use."""
        return replace(
            self.baselines[prompt.name],
            logits=read_rows(self._array(*self._unit("baseline", [prompt]))),
            reference=read_rows(self._array(*self._unit("reference", [prompt]))),
        )

    # ---- options ------------------------------------------------------------------------

    def _option_units(self, option: Option) -> list[Unit]:
        groups = option.groups(self.size.prompts_of(option))
        named = {"option": option.spelled, "knob": option.knob.home}
        return [(group, *self._unit(option.slug, group, **named)) for group in groups]

    def _is_measured(self, option: Option) -> bool:
        return not self.missing(option)

    def missing(self, option: Option) -> list[Unit]:
        """Return the units of an option that the journal does not hold."""
        units = self._option_units(option)
        return [unit for unit in units if not self._journal.has(unit[1], digest=unit[2])]

    def run(self, option: Option) -> dict[str, Run]:
        """Run an option on its prompts, or read what the journal holds of it.

        Returns:
            Its runs by prompt name.

        Raises:
            NotApplicable: If it has nothing to change in this model.
            NotApplied: If its effect cannot be seen in the live stack.
        """
        for unit, digest, value in self.measured(option, self.missing(option)):
            self.keep(unit, digest, value)
        runs: dict[str, Run] = {}
        for _, unit, digest in self._option_units(option):
            stored = self._journal.value(unit, digest=digest)
            self._tell(unit)
            if "refused" in stored:
                kind = NotApplicable if stored["refused"] == "NotApplicable" else NotApplied
                raise kind(stored["why"])
            runs |= {run["prompt"]: Run.from_json(run) for run in stored["runs"]}
        return runs

    def keep(self, unit: str, digest: str, value: dict[str, Any]) -> None:
        """Put a measured unit into the journal, which one process writes."""
        self._journal.append(unit, digest=digest, value=value)
        self._tell(unit)

    def _tell(self, unit: str) -> None:
        if unit not in self._told:
            self._told.add(unit)
            self._tick(unit)

    def measured(
        self, option: Option, units: Sequence[Unit]
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Measure units of an option, and yield each one's name, digest and value.

        A refusal is the value of all of them.

        Raises:
            NotFinite: If a logit is NaN or infinite, naming the option.
        """
        if not units:
            return
        try:
            with option.applied(self.backend) as variant:
                for group, unit, digest in units:
                    baselines = [self._opened(prompt) for prompt in group]
                    runs = compare(
                        variant,
                        baselines,
                        expect=option.expected(group),
                        go_on=self.size.go_on,
                    )
                    yield unit, digest, {"runs": [run.to_json() for run in runs]}
                copied = self._stack.is_copy(variant, self.backend)
                del variant
            if copied:
                self._stack.collect()
        except NotFinite as problem:
            raise NotFinite(f"{option.spelled} in {self.size.precision}: {problem}") from problem
        except (NotApplicable, NotApplied) as refusal:
            value = {"refused": type(refusal).__name__, "why": str(refusal)}
            yield from ((unit, digest, value) for _, unit, digest in units)


_NOT_OPENED: Logits = np.empty((0, 0), dtype=np.float32)
