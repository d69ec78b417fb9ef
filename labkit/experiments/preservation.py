"""The preservation table: which options keep the function, and how that is known."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labkit.backends import Stack
from labkit.backends.observing import observe_prompts
from labkit.backends.stacks import open_stack, require_stack
from labkit.errors import KnobError, PromptError
from labkit.experiments._measuring import as_prompts, depends_of, measure
from labkit.experiments._own_prompts import read_prompts
from labkit.experiments._passages import Passage, load_passages, passages_digest
from labkit.experiments._section import as_profile
from labkit.experiments._workers import sharing_cores
from labkit.files import digest_of
from labkit.journal import Journal
from labkit.knobs import Option, parse_option, preservation_table
from labkit.knobs.registry import require_distinct
from labkit.profiles import Profile
from labkit.progress import Progress, tell
from labkit.record import substrate
from labkit.results import recorded_run

SECTION = "preservation"
CONTRACT = {
    "execution.decoding": "greedy, of equal logits the lowest id",
    "execution.truncation": "none; a prompt that does not fit is refused",
    "execution.seeds": {"bootstrap": 0},
    "evaluation.extractor": "none",
    "evaluation.scorer": "none",
    "evaluation.metric": "rounding ratio, growth over precisions, first divergence",
    "evaluation.uncertainty": "bootstrap over prompts",
}


def run(
    profile: str | Profile = "quick",
    run_dir: str | Path | None = None,
    *,
    model: str | None = None,
    revision: str | None = None,
    knobs: Sequence[str] | None = None,
    table: str | None = None,
    stack: str = "transformers",
    prompts: str | Path | None = None,
    steps: int | None = None,
    jobs: int = 1,
    progress: Progress = tell,
) -> dict[str, Any]:
    """Run options against the baseline and return the section.

    Args:
        profile: The size of the run, its model and its device.
        run_dir: The run's folder; "" is the scratch run, None stores nothing. An interrupted
            run goes on from its journal.
        model: Another model than the profile's.
        revision: Its revision, for a hub id.
        knobs: Options such as `chunked_prefill:chunk=64`; the profile's by default.
        table: A table of options by name, such as `more` or `bits`, where no option is named.
        stack: The stack that runs baseline and options; another than transformers has a table
            of its own name.
        prompts: A `.jsonl` file of prompts that are run whole; the frozen passages by default.
        steps: Tokens generated after each; the profile's number by default.
        jobs: Processes that options are spread over, each with its share of the cores and a
            model of its own.
        progress: Called after each pass.

    Raises:
        KnobError: If an option is unknown; nothing was run.
        RunError: If there are more jobs than cores, or another device than the processor.
        ModelError: If the model cannot be had.
        PromptError: If a passage is too short, or too long for the model.
    """
    require_stack(stack)
    settings = as_profile(profile)
    if model is not None:
        settings = replace(settings, model=model, revision=revision)
    own = read_prompts(prompts) if prompts is not None else None
    settings = _resized(settings, own=own, steps=steps)
    own_table = None if stack == "transformers" else stack
    options = choose_options(settings, knobs, table=table or own_table)
    require_distinct(options)
    given: dict[str, object] = {
        "knobs": list(knobs) if knobs else None,
        "model": model or None,
        "table": table,
        "stack": own_table,
        "prompts": Path(prompts).name if prompts is not None else None,
        "steps": steps,
        "jobs": jobs if jobs > 1 else None,
    }
    passed = {name: value for name, value in given.items() if value is not None}
    opened = open_stack(
        stack,
        settings.model,
        dtype=settings.dtype,
        device=settings.device,
        revision=settings.revision,
    )
    asked = _Asked(stack=opened, profile=settings, options=options, own=own)
    with sharing_cores(jobs, device=settings.device):
        return _run_in(run_dir, asked, passed=passed, jobs=jobs, progress=progress)


def _run_in(
    run_dir: str | Path | None,
    asked: _Asked,
    *,
    passed: dict[str, object],
    jobs: int,
    progress: Progress,
) -> dict[str, Any]:
    """Measure in a run's folder with a record, or in one that is thrown away."""
    if run_dir is None:
        with tempfile.TemporaryDirectory(prefix="labkit-") as scratch:
            return _measure(asked, folder=Path(scratch), jobs=jobs, progress=progress).section
    with recorded_run(
        run_dir, command=SECTION, profile=asked.profile.to_json(), parameters_passed=passed
    ) as folder:
        measured = _measure(asked, folder=folder.path, jobs=jobs, progress=progress)
        folder.write_section(SECTION, measured.section)
        folder.observe(**measured.learned)
        shutil.rmtree(folder.path / "work", ignore_errors=True)
    return measured.section


def _resized(profile: Profile, *, own: list[Passage] | None, steps: int | None) -> Profile:
    """Return the profile at the size of the user's own prompts and steps."""
    if steps is not None and steps < 1:
        raise PromptError(f"at least one token must be generated; got steps={steps}.")
    fine = profile.float32_lane
    steps = steps or profile.steps
    if own is None:
        return replace(profile, steps=steps)
    count = len(own)
    return replace(
        profile,
        prompts=count,
        steps=steps,
        rope_prompts=min(profile.rope_prompts, count),
        float32_lane=replace(fine, prompts=min(fine.prompts, count)),
    )


def choose_options(
    profile: Profile, knobs: Sequence[str] | None, *, table: str | None = None
) -> list[Option]:
    """Return the options to run: the ones asked for, else a table's, else the profile's.

    Raises:
        KnobError: If one is unknown.
    """
    if knobs:
        return [parse_option(text) for text in knobs]
    if table is not None:
        return preservation_table(table)
    main = preservation_table()
    if profile.knobs == "all":
        return main
    by_slug = {option.slug: option for option in main}
    if unknown := [name for name in profile.knobs if name not in by_slug]:
        raise KnobError(
            f"profile {profile.name!r} names rows that do not exist: {', '.join(unknown)}. "
            f"Known: {', '.join(by_slug)}."
        )
    return [by_slug[name] for name in profile.knobs]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    stack: Stack
    profile: Profile
    options: Sequence[Option]
    own: list[Passage] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    section: dict[str, Any]
    learned: dict[str, object]


def _measure(asked: _Asked, *, folder: Path, jobs: int, progress: Progress) -> _Measured:
    """Measure the section, and gather what goes into the run's record beside it."""
    stack, profile, own = asked.stack, asked.profile, asked.own
    passages = own if own is not None else load_passages(profile.prompts)
    prompts = as_prompts(stack, passages, profile, whole=own is not None)
    journal = Journal(folder / "journal.jsonl")
    # The plain run: an option's own changes stand in its row.
    plain = journal.once(
        "observed/plain",
        digest=digest_of({**depends_of(stack), "ids": list(prompts[0].ids)}),
        measure=lambda: stack.observe(profile.dtype, prompts[0].ids),
    )
    section = measure(
        stack,
        profile,
        prompts,
        asked.options,
        journal=journal,
        work=folder / "work",
        progress=progress,
        jobs=jobs,
    )
    learned: dict[str, object] = {
        "observed": {
            **plain,
            **substrate(),
            **observe_prompts([p.text for p in passages], [p.ids for p in prompts]),
            "identity.prompts": passages_digest(passages),
            **CONTRACT,
        },
        "resolved": stack.resolved() | {"execution.steps": profile.steps},
        "journal_problems": journal.problems,
    }
    return _Measured(section=section, learned=learned)
