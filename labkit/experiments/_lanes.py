"""The passes of one precision: baselines, their reference, and the options compared with them.

Logits are written to the run's `work` folder a step at a time and read back a step at a
time, so memory does not grow with prompts or steps. What was measured is in the journal;
the arrays are only needed while options are still to be run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labkit import models
from labkit.backends import Logits
from labkit.backends.transformers import TransformersBackend
from labkit.errors import NotApplicable, NotApplied, RunError
from labkit.files import digest_of, disk_error
from labkit.harness import Baseline, Run, Trace, compare, follow, greedy
from labkit.harness.compare import centred_difference, distance_rms, significant
from labkit.harness.traces import NotFinite
from labkit.journal import Journal
from labkit.knobs import Option, Prompt

Tick = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSize:
    """What one lane runs.

    Attributes:
        precision: The dtype of baseline and variants.
        reference: The dtype of the reference.
        prompts: The prompts, as token ids.
        few: How many of them the options with few prompts take.
        steps: Tokens generated after each.
    """

    precision: str
    reference: str
    prompts: tuple[Prompt, ...]
    few: int
    steps: int

    def prompts_of(self, option: Option) -> tuple[Prompt, ...]:
        """Return the prompts an option is run on."""
        return self.prompts[: self.few] if option.prompts == "few" else self.prompts


class LaneRunner:
    """Runs a lane's passes, each once: what the journal holds is not run again."""

    def __init__(
        self,
        size: LaneSize,
        *,
        load: Callable[[str], models.LoadedModel],
        journal: Journal,
        work: Path,
        depends: dict[str, object],
        tick: Tick,
    ) -> None:
        """Prepare a lane; nothing is loaded before it is needed.

        Args:
            size: Precisions, prompts and steps.
            load: Loads the model in a named dtype.
            journal: What was measured so far.
            work: A folder for arrays.
            depends: Everything else the numbers depend on (model digest, versions, device).
            tick: Called after each pass with its name.
        """
        self.size = size
        self._load = load
        self._journal = journal
        self._work = work
        self._depends = depends
        self._tick = tick
        self.baselines: dict[str, Baseline] = {}

    @cached_property
    def backend(self) -> TransformersBackend:
        """The baseline's stack, loaded on first use."""
        return TransformersBackend(loaded=self._load(self.size.precision))

    def close(self) -> None:
        """Drop the model."""
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
            reference = TransformersBackend(loaded=self._load(self.size.reference))
        for prompt in prompts:
            self.baselines[prompt.name] = self._with_reference(
                prompt, traces[prompt.name], reference, keep=bool(missing)
            )
        if reference is not None:
            del reference
            models.release()

    def _baseline_trace(self, prompt: Prompt, *, keep: bool) -> Trace:
        unit, digest = self._unit("baseline", [prompt])
        path = self._array(unit, digest)
        keep = keep or not self._has_reference(prompt, keep=False)
        if not self._journal.has(unit, digest=digest) or (keep and not _is_whole(path)):
            with _Rows(path, steps=self.size.steps) as rows:
                trace = greedy(self.backend, prompt.ids, steps=self.size.steps, on_step=rows.write)
            value = {"tokens": list(trace.tokens), "margins": list(trace.margins)}
            self._journal.append(unit, digest=digest, value=value)
        self._tick(unit)
        stored = self._journal.value(unit, digest=digest)
        return Trace(tokens=tuple(stored["tokens"]), margins=tuple(stored["margins"]))

    def _has_reference(self, prompt: Prompt, *, keep: bool) -> bool:
        unit, digest = self._unit("reference", [prompt])
        stands = self._journal.has(unit, digest=digest)
        return stands and (not keep or _is_whole(self._array(unit, digest)))

    def _with_reference(
        self, prompt: Prompt, trace: Trace, backend: TransformersBackend | None, *, keep: bool
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
        backend: TransformersBackend,
        prompt: Prompt,
        trace: Trace,
        *,
        path: Path,
        base_path: Path,
    ) -> dict[str, list[float]]:
        logits = _read_rows(base_path)
        rms: list[float] = []
        largest: list[float] = []
        with _Rows(path, steps=self.size.steps) as rows:
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
            logits=_read_rows(self._array(*self._unit("baseline", [prompt]))),
            reference=_read_rows(self._array(*self._unit("reference", [prompt]))),
        )

    # ---- options ------------------------------------------------------------------------

    def _option_units(self, option: Option) -> list[tuple[list[Prompt], str, str]]:
        groups = option.groups(self.size.prompts_of(option))
        named = {"option": option.spelled, "knob": option.knob.home}
        return [(group, *self._unit(option.slug, group, **named)) for group in groups]

    def _is_measured(self, option: Option) -> bool:
        units = self._option_units(option)
        return all(self._journal.has(unit, digest=digest) for _, unit, digest in units)

    def run(self, option: Option) -> dict[str, Run]:
        """Run an option on its prompts, or read what the journal holds of it.

        Returns:
            Its runs by prompt name.

        Raises:
            NotApplicable: If it has nothing to change in this model.
            NotApplied: If its effect cannot be seen in the live stack.
        """
        units = self._option_units(option)
        missing = [u for u in units if not self._journal.has(u[1], digest=u[2])]
        if missing:
            self._measure(option, missing)
        runs: dict[str, Run] = {}
        for group, unit, digest in units:
            stored = self._journal.value(unit, digest=digest)
            if (group, unit, digest) not in missing:
                self._tick(unit)
            if "refused" in stored:
                kind = NotApplicable if stored["refused"] == "NotApplicable" else NotApplied
                raise kind(stored["why"])
            runs |= {run["prompt"]: Run.from_json(run) for run in stored["runs"]}
        return runs

    def _measure(self, option: Option, units: list[tuple[list[Prompt], str, str]]) -> None:
        try:
            with option.applied(self.backend) as variant:
                for group, unit, digest in units:
                    baselines = [self._opened(prompt) for prompt in group]
                    runs = compare(variant, baselines, expect=option.expected(group))
                    value = {"runs": [run.to_json() for run in runs]}
                    self._journal.append(unit, digest=digest, value=value)
                    self._tick(unit)
                copied = getattr(variant, "loaded", None) is not self.backend.loaded
                del variant
            if copied:
                models.release()
        except NotFinite as problem:
            raise NotFinite(f"{option.spelled} in {self.size.precision}: {problem}") from problem
        except (NotApplicable, NotApplied) as refusal:
            value_of_refusal = {"refused": type(refusal).__name__, "why": str(refusal)}
            for _, unit, digest in units:
                self._journal.append(unit, digest=digest, value=value_of_refusal)


class _Rows:
    """Writes an array of logits a row at a time, and moves it into place whole."""

    def __init__(self, path: Path, *, steps: int) -> None:
        self._path = path
        self._part = path.with_suffix(".part")
        self._steps = steps
        self._array: Any = None

    def __enter__(self) -> _Rows:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self

    def write(self, step: int, logits: Logits) -> None:
        """Store one step's logits."""
        needed = self._steps * logits.nbytes
        try:
            if self._array is None:
                self._array = self._part.open("wb")
                shape = (self._steps, len(logits))
                header = {"descr": logits.dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_2_0(self._array, header)
            self._array.write(logits.tobytes())
        except OSError as error:
            raise disk_error(error, path=self._path, needed_bytes=needed) from error

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._array is None:
            return
        try:
            self._array.close()
        except OSError as problem:
            self._part.unlink(missing_ok=True)
            if error is None:
                raise disk_error(problem, path=self._path, needed_bytes=0) from problem
        if error is None:
            self._part.replace(self._path)
        else:
            self._part.unlink(missing_ok=True)


_NOT_OPENED: Logits = np.empty((0, 0), dtype=np.float32)


def _is_whole(path: Path) -> bool:
    """Say whether an array is there and as long as its header says."""
    try:
        np.load(path, mmap_mode="r")
    except (OSError, ValueError):
        return False
    return True


def _read_rows(path: Path) -> Logits:
    if not path.exists():
        raise RunError(f"the array {path.name} must be there; run the same command again.")
    rows: Logits = np.load(path, mmap_mode="r")
    return rows


def unchanged_weights(loaded: models.LoadedModel, dtype: str) -> tuple[int, int]:
    """Return how many stored weights a cast to `dtype` alters, and how many there are."""
    target = getattr(torch, dtype)
    altered = total = 0
    for parameter in loaded.model.parameters():
        back = parameter.data.to(target).to(parameter.dtype)
        altered += int((back != parameter.data).sum())
        total += parameter.numel()
    return altered, total
