"""From options and prompts to the preservation section: which lanes run what, and what is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import labkit
from labkit.backends import Stack
from labkit.errors import NotApplicable, NotApplied, PromptError
from labkit.experiments._lanes import LaneRunner, LaneSize
from labkit.experiments._passages import Passage
from labkit.experiments._rows import (
    declare,
    describe_margins,
    lane_rows,
    option_row,
    run_rows,
    summarise,
)
from labkit.experiments._workers import measure_apart
from labkit.files import digest_files, digest_of
from labkit.harness import Baseline, Lane
from labkit.journal import Journal
from labkit.knobs import Option, Prompt
from labkit.profiles import Profile
from labkit.progress import Progress

REFERENCE = {"float16": "float32", "bfloat16": "float32", "float32": "float64"}
"""The precision that judges another."""


def as_prompts(
    stack: Stack, passages: Sequence[Passage], profile: Profile, *, whole: bool
) -> tuple[Prompt, ...]:
    """Encode passages, cut to the profile's length unless they are the user's own.

    Raises:
        PromptError: If one is too short, or does not fit the model with its output.
    """
    limit = stack.positions
    prompts = []
    for passage in passages:
        ids = stack.encode(passage.text)
        length = len(ids) if whole else profile.prompt_tokens
        total = length + profile.steps
        if limit is not None and total > limit:
            raise PromptError(
                f"prompt and output must fit the model's {limit} positions; got prompt_tokens="
                f"{length} + steps={profile.steps} = {total} for {passage.name}. Lower one of them."
            )
        if len(ids) < length:
            raise PromptError(
                f"passage {passage.name} must give prompt_tokens={length}; this "
                f"tokenizer makes {len(ids)} of it. Lower prompt_tokens in the profile."
            )
        prompts.append(Prompt(name=passage.name, ids=tuple(ids[:length])))
    return tuple(prompts)


def lane_sizes(profile: Profile, prompts: tuple[Prompt, ...]) -> list[LaneSize]:
    """Return the lanes of a profile, the coarser first."""
    main = LaneSize(
        precision=profile.dtype,
        reference=REFERENCE[profile.dtype],
        prompts=prompts,
        few=profile.rope_prompts,
        steps=profile.steps,
    )
    if profile.dtype == "float32" or profile.float32_lane.prompts == 0:
        return [main]
    fine = LaneSize(
        precision="float32",
        reference="float64",
        prompts=prompts[: profile.float32_lane.prompts],
        few=min(profile.rope_prompts, profile.float32_lane.prompts),
        steps=min(profile.float32_lane.steps, profile.steps),
        go_on=False,  # its texts are shown nowhere
    )
    return [main, fine]


def _asked(options: Sequence[Option], *, first: bool) -> list[Option]:
    """Return the options of a lane; one that declares its own precision runs in the first."""
    return [option for option in options if first or option.knob.precision is None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What the lanes gave.

    Attributes:
        lanes: The lanes of each option, by its slug; none where it was refused.
        refused: Why an option was not run, by its slug.
        baselines: The baselines of each lane by prompt, by the lane's precision.
    """

    lanes: dict[str, list[Lane]]
    refused: dict[str, NotApplicable | NotApplied] = field(default_factory=dict)
    baselines: dict[str, dict[str, Baseline]] = field(default_factory=dict)


def run_lanes(
    stack: Stack,
    sizes: Sequence[LaneSize],
    options: Sequence[Option],
    *,
    journal: Journal,
    work: Path,
    progress: Progress,
    jobs: int,
) -> Ran:
    """Run every option in every lane; between two lanes the model is dropped."""
    ran = Ran(lanes={option.slug: [] for option in options})
    tick = _ticker(sizes, options, progress)
    depends = depends_of(stack)
    for size in sizes:
        runner = LaneRunner(
            size, stack=stack, journal=journal, work=work, depends=depends, tick=tick
        )
        _run_lane(runner, _asked(options, first=size is sizes[0]), ran, jobs=jobs)
        runner.close()
        stack.forget()
    return ran


def _run_lane(runner: LaneRunner, options: Sequence[Option], ran: Ran, *, jobs: int) -> None:
    options = [option for option in options if option.slug not in ran.refused]
    runner.prepare(options)
    if jobs > 1:
        measure_apart(runner, options, jobs=jobs)
    for option in options:
        try:
            runs = runner.run(option)
        except (NotApplicable, NotApplied) as refusal:
            ran.refused[option.slug] = refusal
            ran.lanes[option.slug].clear()  # half a row would be counted by some, not by others
            continue
        compared = {name: runner.baselines[name] for name in runs}
        lane = Lane(precision=runner.size.precision, runs=runs, baselines=compared)
        ran.lanes[option.slug].append(lane)
    ran.baselines[runner.size.precision] = runner.baselines


def depends_of(stack: Stack) -> dict[str, object]:
    """Return what every unit depends on apart from prompt, steps and option."""
    return stack.depends() | {"code": _code_digest()}


@cache
def _code_digest() -> str:
    """Return a digest of the code that a pass runs; a knob's own module is added to its units."""
    root = Path(labkit.__file__).parent
    files = ("harness/traces.py", "harness/compare.py", "experiments/_lanes.py")
    rooms = [path for room in ("models", "backends") for path in sorted((root / room).glob("*.py"))]
    return digest_files([*(root / name for name in files), *rooms], root=root)


def _ticker(
    sizes: Sequence[LaneSize], options: Sequence[Option], progress: Progress
) -> Callable[[str], None]:
    total = 0
    for size in sizes:
        asked = _asked(options, first=size is sizes[0])
        groups = [g for o in asked for g in o.groups(size.prompts_of(o))]
        prompts = {p for group in groups for p in group} | set(size.prompts)
        total += 2 * len(prompts) + len(groups)
    done = 0

    def tick(unit: str) -> None:
        nonlocal done
        done += 1
        progress(done, total, unit)

    return tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """What the cast of an option that declares its precision does: one of two sentences."""

    exact: str | None
    altered: str | None


def count_cast(option: Option, stack: Stack, journal: Journal) -> Cast:
    """Count the weights that an option's declared precision alters, once a model."""
    name = option.knob.precision or ""
    altered, total = journal.once(
        f"cast/{name}",
        digest=digest_of(depends_of(stack)),
        measure=lambda: list(stack.altered_by_cast(name)),
    )
    if altered:
        return Cast(
            exact=None,
            altered=f"it declares {name} arithmetic, and the cast altered {altered:,} of the "
            f"{total:,} loaded weights; as arithmetic its unit is the plain run in {name}",
        )
    return Cast(
        exact=f"it declares {name} arithmetic, in which each of the {total:,} loaded weights is "
        "exact (0 altered by the cast)",
        altered=None,
    )


def measure(
    stack: Stack,
    profile: Profile,
    prompts: tuple[Prompt, ...],
    options: Sequence[Option],
    *,
    journal: Journal,
    work: Path,
    progress: Progress,
    jobs: int = 1,
) -> dict[str, Any]:
    """Run both lanes, with options spread over `jobs` processes, and return the section."""
    began_s = time.perf_counter()
    casts = {o.slug: count_cast(o, stack, journal) for o in options if o.knob.precision}
    sizes = lane_sizes(profile, prompts)
    ran = run_lanes(stack, sizes, options, journal=journal, work=work, progress=progress, jobs=jobs)
    rows = [_row(option, ran, casts.get(option.slug)) for option in options]
    main = ran.baselines[profile.dtype]
    margins = [main[prompt.name].trace.margins for prompt in prompts]
    return {
        "rows": rows,
        "runs": [row for o in options for row in run_rows(o, ran.lanes[o.slug], stack.decode)],
        "lanes": [row for o in options for row in lane_rows(o, ran.lanes[o.slug])],
        "baseline": _describe_baseline(profile, margins),
        "summary": summarise(rows, margins),
        "elapsed_s": round(time.perf_counter() - began_s, 3),
    }


def _row(option: Option, ran: Ran, cast: Cast | None) -> dict[str, Any]:
    lanes = ran.lanes[option.slug]
    plain = ran.baselines.get(option.knob.precision or "")
    return option_row(
        option,
        lanes,
        declared=declare(cast.exact, lanes, plain=plain) if cast else None,
        altered=cast.altered if cast else None,
        refused=ran.refused.get(option.slug),
    )


def _describe_baseline(profile: Profile, margins: Sequence[Sequence[float]]) -> Mapping[str, Any]:
    return {
        "prompts": profile.prompts,
        "prompt_tokens": profile.prompt_tokens,
        "steps": profile.steps,
        "dtype": profile.dtype,
        "reference": REFERENCE[profile.dtype],
        **describe_margins([margin for row in margins for margin in row]),
        "margins": [list(row) for row in margins],
    }
