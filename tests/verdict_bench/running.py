"""Run every case on a subject at every precision, and keep what verdict and criteria read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from labkit import models
from labkit.backends import Backend, Logits
from labkit.backends.transformers import TransformersBackend
from labkit.errors import LabError, NotApplicable, NotApplied
from labkit.experiments._measuring import REFERENCE
from labkit.harness import Baseline, Lane, Run, compare, follow, greedy
from labkit.harness.compare import centred_difference
from labkit.harness.traces import NotFinite
from labkit.knobs import Prompt
from verdict_bench.cases import Case
from verdict_bench.criteria import Recorder, Seen, look
from verdict_bench.subjects import Subject

PRECISIONS = ("bfloat16", "float16", "float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A case at one precision."""

    lane: Lane
    seen: dict[str, Seen]


@dataclass(slots=True, kw_only=True)
class Part:
    """A case on a subject at one precision, which another process can measure.

    Attributes:
        case: The case's name.
        measured: What was measured, if it could be run.
        exact: Distance of the case, computed in float64, from the float64 reference, by prompt:
            what stays of it when the arithmetic is as good as exact. Only at the finest
            precision, and empty where float64 overflows (eager attention takes its softmax in
            float32 even then).
        refused: Why it could not be run, if it could not.
    """

    case: str
    measured: Measured | None = None
    exact: dict[str, tuple[float, ...]] = field(default_factory=dict)
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A case on a subject, from its parts: `at` by precision, the rest as a part has it."""

    subject: Subject
    case: Case
    at: dict[str, Measured]
    exact: dict[str, tuple[float, ...]]
    refused: str | None


def run_subject(subject: Subject, cases: Sequence[Case]) -> list[Record]:
    """Return a record for each case that fits the subject."""
    parts = {precision: run_precision(subject, cases, precision) for precision in PRECISIONS}
    return gather(subject, cases, parts)


def run_precision(subject: Subject, cases: Sequence[Case], precision: str) -> list[Part]:
    """Return a part for each case that fits the subject."""
    loaded = subject.make()
    prompts = subject.prompt_list(loaded)
    floor = _Floor(loaded, precision, steps=subject.steps)
    parts = [_measure(case, prompts, floor) for case in cases if case.fits(subject.traits)]
    floor.require_unchanged(prompts[0])
    del floor
    models.release()
    return parts


def gather(
    subject: Subject, cases: Sequence[Case], parts: Mapping[str, Sequence[Part]]
) -> list[Record]:
    """Return a record for each case that fits the subject, from its parts by precision."""
    fitting = [case for case in cases if case.fits(subject.traits)]
    rows = zip(*(parts[precision] for precision in PRECISIONS), strict=True)
    return [_record(subject, case, row) for case, row in zip(fitting, rows, strict=True)]


def _record(subject: Subject, case: Case, parts: Sequence[Part]) -> Record:
    if any(part.case != case.name for part in parts):
        raise LabError(f"parts of {case.name} must be its own; got {[p.case for p in parts]}.")
    measured = zip(PRECISIONS, parts, strict=True)
    return Record(
        subject=subject,
        case=case,
        at={precision: part.measured for precision, part in measured if part.measured},
        exact=parts[-1].exact,
        refused=next((part.refused for part in parts if part.refused is not None), None),
    )


class _Floor:
    """A precision's baseline, reference, and the traces of both, each made once."""

    def __init__(self, loaded: models.LoadedModel, precision: str, *, steps: int) -> None:
        self.precision = precision
        self.steps = steps
        self.plain = TransformersBackend(loaded=models.cast(loaded, precision))
        self.exact = TransformersBackend(loaded=models.cast(loaded, REFERENCE[precision]))
        self._made: dict[str, Baseline] = {}

    def of(self, prompt: Prompt) -> Baseline:
        """Return a prompt's baseline."""
        if prompt.name not in self._made:
            self._made[prompt.name] = baseline_of(self.plain, self.exact, prompt, steps=self.steps)
        return self._made[prompt.name]

    def require_unchanged(self, prompt: Prompt) -> None:
        """Fail if a case left something behind in the model."""
        again = baseline_of(self.plain, self.exact, prompt, steps=self.steps)
        before = self.of(prompt)
        same = np.array_equal(again.logits, before.logits)
        if not (same and np.array_equal(again.reference, before.reference)):
            raise LabError(f"a case changed the {self.precision} model for those after it.")


def baseline_of(plain: Backend, exact: Backend, prompt: Prompt, *, steps: int) -> Baseline:
    """Run a backend and its reference along the same continuation."""
    kept: list[Logits] = []
    trace = greedy(plain, prompt.ids, steps=steps, on_step=lambda _, row: kept.append(row.copy()))
    reference = [row[0] for row in follow(exact, [prompt.ids], [trace.tokens])]
    off = [centred_difference(row, right) for row, right in zip(kept, reference, strict=True)]
    return Baseline(
        prompt=prompt.name,
        ids=prompt.ids,
        trace=trace,
        logits=np.stack(kept),
        reference=np.stack(reference),
        error_rms=np.asarray([np.sqrt(np.mean(np.square(o, dtype=np.float64))) for o in off]),
        error_max=np.asarray([np.abs(o).max() for o in off]),
    )


def _measure(case: Case, prompts: Sequence[Prompt], floor: _Floor) -> Part:
    option = case.option
    groups = option.groups(prompts) if option else [[prompt] for prompt in prompts]
    runs: dict[str, Run] = {}
    seen: dict[str, Seen] = {}
    part = Part(case=case.name)
    try:
        with case.apply(floor.plain) as variant:
            for group in groups:
                baselines = [floor.of(prompt) for prompt in group]
                recorder = Recorder(backend=variant)
                expect = option.expected(group) if option else {}
                for place, run in enumerate(
                    compare(recorder, baselines, expect=expect, go_on=False)
                ):
                    rows = [answer[place] for answer in recorder.kept]
                    base = baselines[place]
                    runs[run.prompt] = run
                    seen[run.prompt] = look(run, base, rows, precision=floor.precision)
        if floor.precision == PRECISIONS[-1]:
            with contextlib.suppress(NotFinite):
                part.exact = dict(_exactly(case, groups, floor))
    except (NotApplicable, NotApplied) as refusal:
        part.refused = str(refusal)
        return part
    lane = Lane(
        precision=floor.precision,
        runs=runs,
        baselines={p.name: floor.of(p) for group in groups for p in group},
    )
    part.measured = Measured(lane=lane, seen=seen)
    return part


def _exactly(
    case: Case, groups: Sequence[Sequence[Prompt]], floor: _Floor
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Run the case in the reference's own precision: what remains is not rounding."""
    with case.apply(floor.exact) as variant:
        for group in groups:
            for run in compare(variant, [floor.of(prompt) for prompt in group], go_on=False):
                yield run.prompt, run.distance
