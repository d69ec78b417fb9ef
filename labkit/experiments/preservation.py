"""The preservation table: which options keep the function, and how that is known."""

from __future__ import annotations

import importlib.metadata
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

import labkit
from labkit import models
from labkit.errors import KnobError, NotApplicable, NotApplied, PromptError
from labkit.experiments._lanes import LaneRunner, LaneSize, unchanged_weights
from labkit.experiments._own_prompts import read_prompts
from labkit.experiments._passages import Passage, load_passages, passages_digest
from labkit.experiments._rows import (
    declare,
    describe_margins,
    lane_rows,
    option_row,
    run_rows,
    summarise,
)
from labkit.experiments._section import as_profile
from labkit.files import digest_files
from labkit.harness import Baseline, Lane, Run
from labkit.journal import Journal
from labkit.knobs import Option, Prompt, parse_option, preservation_table
from labkit.knobs.registry import require_distinct
from labkit.profiles import Profile
from labkit.progress import Progress, tell
from labkit.record import describe_device
from labkit.results import recorded_run

SECTION = "preservation"
REFERENCE = {"float16": "float32", "bfloat16": "float32", "float32": "float64"}


def run(
    profile: str | Profile = "quick",
    run_dir: str | Path | None = None,
    *,
    model: str | None = None,
    revision: str | None = None,
    knobs: Sequence[str] | None = None,
    table: str | None = None,
    prompts: str | Path | None = None,
    steps: int | None = None,
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
        prompts: A `.jsonl` file of prompts that are run whole; the frozen passages by default.
        steps: Tokens generated after each; the profile's number by default.
        progress: Called after each pass.

    Raises:
        KnobError: If an option is unknown; nothing was run.
        ModelError: If the model cannot be had.
        PromptError: If a passage is too short, or too long for the model.
    """
    settings = as_profile(profile)
    if model is not None:
        settings = replace(settings, model=model, revision=revision)
    own = read_prompts(prompts) if prompts is not None else None
    settings = _resized(settings, own=own, steps=steps)
    options = choose_options(settings, knobs, table=table)
    require_distinct(options)
    if run_dir is None:
        with tempfile.TemporaryDirectory(prefix="labkit-") as scratch:
            folder_path = Path(scratch)
            return _measure(settings, options, own, folder=folder_path, progress=progress).section
    passed: dict[str, object] = {"knobs": list(knobs)} if knobs else {}
    passed |= {"model": model} if model else {}
    passed |= {"table": table} if table is not None else {}
    passed |= {"prompts": Path(prompts).name} if prompts is not None else {}
    passed |= {"steps": steps} if steps is not None else {}
    with recorded_run(
        run_dir, command=SECTION, profile=settings.to_json(), parameters_passed=passed
    ) as folder:
        measured = _measure(settings, options, own, folder=folder.path, progress=progress)
        folder.write_section(SECTION, measured.section)
        folder.amend_run(**measured.learned)
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
class _Measured:
    section: dict[str, Any]
    learned: dict[str, object]


def _measure(
    profile: Profile,
    options: Sequence[Option],
    own: list[Passage] | None,
    *,
    folder: Path,
    progress: Progress,
) -> _Measured:
    """Run both lanes and put the section together."""
    began_s = time.perf_counter()
    loader = _Loader(profile)
    passages = own if own is not None else load_passages(profile.prompts)
    prompts = _as_prompts(loader(profile.dtype), passages, profile, whole=own is not None)
    journal = Journal(folder / "journal.jsonl")
    sizes = _lane_sizes(profile, prompts)
    tick = _ticker(sizes, options, progress)
    lanes: dict[str, list[Lane]] = {option.slug: [] for option in options}
    refused: dict[str, NotApplicable | NotApplied] = {}
    baselines: dict[str, dict[str, Baseline]] = {}
    casts = {o.slug: _cast(o, loader(profile.dtype)) for o in options if o.knob.precision}
    depends = _depends(loader(profile.dtype), profile)
    for size in sizes:
        asked = [o for o in options if o.knob.precision is None or size is sizes[0]]
        asked = [option for option in asked if option.slug not in refused]
        runner = LaneRunner(
            size, load=loader, journal=journal, work=folder / "work", depends=depends, tick=tick
        )
        runner.prepare(asked)
        for option in asked:
            try:
                runs = runner.run(option)
            except (NotApplicable, NotApplied) as refusal:
                refused[option.slug] = refusal
                lanes[option.slug].clear()  # half a row would be counted by some and not by others
                continue
            lanes[option.slug].append(_lane(size, runs, runner))
        baselines[size.precision] = runner.baselines
        runner.close()
        loader.forget()
    main = baselines[sizes[0].precision]
    declared = {
        o.slug: declare(cast.exact, lanes[o.slug], plain=baselines.get(o.knob.precision or ""))
        for o in options
        if (cast := casts.get(o.slug))
    }
    rows = [
        option_row(
            o,
            lanes[o.slug],
            declared=declared.get(o.slug),
            altered=casts[o.slug].altered if o.slug in casts else None,
            refused=refused.get(o.slug),
        )
        for o in options
    ]
    section = {
        "rows": rows,
        "runs": [row for o in options for row in run_rows(o, lanes[o.slug], loader.decode)],
        "lanes": [row for o in options for row in lane_rows(o, lanes[o.slug])],
        "baseline": _describe_baseline(profile, [main[p.name].trace.margins for p in prompts]),
        "summary": summarise(rows, [main[p.name].trace.margins for p in prompts]),
        "elapsed_s": round(time.perf_counter() - began_s, 3),
    }
    learned: dict[str, object] = {
        "model": loader.identity,
        "prompts_digest": passages_digest(passages),
        "device": describe_device(),
        "seeds": {"bootstrap": 0},
        "journal_problems": journal.problems,
    }
    return _Measured(section=section, learned=learned)


class _Loader:
    """Loads the profile's model in a dtype, keeping the one last asked for."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._kept: models.LoadedModel | None = None
        self._tokenizer: Any = None
        self.identity: dict[str, object] = {}

    def __call__(self, dtype: str) -> models.LoadedModel:
        if self._kept is None:
            self._kept = models.load(
                self._profile.model,
                dtype=self._profile.dtype,
                device=self._profile.device,
                revision=self._profile.revision,
            )
            source = self._kept.source
            self._tokenizer = self._kept.tokenizer
            self.identity = {
                "name": source.name,
                "origin": source.origin,
                "revision": source.revision,
                "digest": self._kept.digest,
                "files": self._kept.files,
            }
        return self._kept if dtype == self._kept.dtype else models.cast(self._kept, dtype)

    def forget(self) -> None:
        """Drop the model; the next call loads it again."""
        self._kept = None
        models.release()

    def decode(self, token: int) -> str:
        """Return the text of one token."""
        text: str = self._tokenizer.decode([token])
        return text


def _as_prompts(
    loaded: models.LoadedModel, passages: Sequence[Passage], profile: Profile, *, whole: bool
) -> tuple[Prompt, ...]:
    """Encode passages, cut to the profile's length unless they are the user's own."""
    limit = getattr(loaded.model.config, "max_position_embeddings", None)
    prompts = []
    for passage in passages:
        ids = loaded.tokenizer.encode(passage.text, add_special_tokens=False)
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


def _lane_sizes(profile: Profile, prompts: tuple[Prompt, ...]) -> list[LaneSize]:
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
    )
    return [main, fine]


def _lane(size: LaneSize, runs: Mapping[str, Run], runner: LaneRunner) -> Lane:
    baselines = {name: runner.baselines[name] for name in runs}
    return Lane(precision=size.precision, runs=runs, baselines=baselines)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cast:
    """What the cast of an option that declares its precision does: one of two sentences."""

    exact: str | None
    altered: str | None


def _cast(option: Option, loaded: models.LoadedModel) -> _Cast:
    """Count the weights that a declared precision alters."""
    name = option.knob.precision or ""
    altered, total = unchanged_weights(loaded, name)
    if altered:
        return _Cast(
            exact=None,
            altered=f"it declares {name} arithmetic, and the cast altered {altered:,} of the "
            f"{total:,} loaded weights; as arithmetic its unit is the plain run in {name}",
        )
    return _Cast(
        exact=f"it declares {name} arithmetic, in which each of the {total:,} loaded weights is "
        "exact (0 altered by the cast)",
        altered=None,
    )


def _depends(loaded: models.LoadedModel, profile: Profile) -> dict[str, object]:
    """Return what every number depends on apart from prompt, steps and option."""
    return {
        "model": loaded.digest,
        "versions": {name: importlib.metadata.version(name) for name in ("torch", "transformers")},
        "loaded_as": profile.dtype,
        "device": str(loaded.model.device),
        "accelerator": describe_device().get("accelerator"),
        "processor": describe_device().get("processor"),
        "threads": torch.get_num_threads(),
        "code": _code_digest(),
    }


@cache
def _code_digest() -> str:
    """Return a digest of the code that a pass runs; a knob's own module is added to its units."""
    root = Path(labkit.__file__).parent
    files = ("models.py", "harness/traces.py", "harness/compare.py", "experiments/_lanes.py")
    passes = [root / name for name in files] + sorted((root / "backends").glob("*.py"))
    return digest_files(passes, root=root)


def _ticker(
    sizes: Sequence[LaneSize], options: Sequence[Option], progress: Progress
) -> Callable[[str], None]:
    total = 0
    for size in sizes:
        asked = [o for o in options if o.knob.precision is None or size is sizes[0]]
        groups = [g for o in asked for g in o.groups(size.prompts_of(o))]
        prompts = {p for group in groups for p in group} | set(size.prompts)
        total += 2 * len(prompts) + len(groups)
    done = 0

    def tick(unit: str) -> None:
        nonlocal done
        done += 1
        progress(done, total, unit)

    return tick


def _describe_baseline(profile: Profile, margins: list[tuple[float, ...]]) -> dict[str, Any]:
    return {
        "prompts": profile.prompts,
        "prompt_tokens": profile.prompt_tokens,
        "steps": profile.steps,
        "dtype": profile.dtype,
        "reference": REFERENCE[profile.dtype],
        **describe_margins([margin for row in margins for margin in row]),
        "margins": [list(row) for row in margins],
    }
