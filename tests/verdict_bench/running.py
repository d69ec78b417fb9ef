"""Run every case on a subject at every precision, and keep what verdict and criteria read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
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
class Record:
    """A case on a subject.

    Attributes:
        subject: The subject.
        case: The case.
        at: What was measured, by precision.
        exact: Distance of the case, computed in float64, from the float64 reference, by prompt:
            what stays of it when the arithmetic is as good as exact. Empty where float64
            overflows (eager attention takes its softmax in float32 even then).
        refused: Why it could not be run, if it could not.
    """

    subject: Subject
    case: Case
    at: dict[str, Measured] = field(default_factory=dict)
    exact: dict[str, tuple[float, ...]] = field(default_factory=dict)
    refused: str | None = None


def run_subject(subject: Subject, cases: Sequence[Case]) -> list[Record]:
    """Return a record for each case that fits the subject."""
    loaded = subject.make()
    prompts = subject.prompt_list(loaded)
    records = [Record(subject=subject, case=c) for c in cases if c.fits(subject.traits)]
    for precision in PRECISIONS:
        floor = _Floor(loaded, precision, steps=subject.steps)
        for record in records:
            if record.refused is None:
                _measure(record, prompts, floor)
        floor.require_unchanged(prompts[0])
        del floor
        models.release()
    return records


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


def _measure(record: Record, prompts: Sequence[Prompt], floor: _Floor) -> None:
    option = record.case.option
    groups = option.groups(prompts) if option else [[prompt] for prompt in prompts]
    runs: dict[str, Run] = {}
    seen: dict[str, Seen] = {}
    try:
        with record.case.apply(floor.plain) as variant:
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
                record.exact = dict(_exactly(record, groups, floor))
    except (NotApplicable, NotApplied) as refusal:
        record.refused = str(refusal)
        return
    lane = Lane(
        precision=floor.precision,
        runs=runs,
        baselines={p.name: floor.of(p) for group in groups for p in group},
    )
    record.at[floor.precision] = Measured(lane=lane, seen=seen)


def _exactly(
    record: Record, groups: Sequence[Sequence[Prompt]], floor: _Floor
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Run the case in the reference's own precision: what remains is not rounding."""
    with record.case.apply(floor.exact) as variant:
        for group in groups:
            for run in compare(variant, [floor.of(prompt) for prompt in group], go_on=False):
                yield run.prompt, run.distance
