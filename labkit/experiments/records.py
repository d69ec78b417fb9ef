"""Records of three small runs of one model, and what each difference between them changes.

The plain run, one whose options only reorder the arithmetic, and a deployment that rounds its
weights, imposes a window and stretches its positions. Each writes a record and a replay bundle.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.audit import pass_gates, preflight
from labkit.backends import Backend
from labkit.backends.observing import (
    observe_changes,
    observe_model,
    observe_prompts,
    observe_session,
    resolve_model,
    watched,
)
from labkit.backends.transformers import TransformersBackend
from labkit.backends.transformers_stack import TransformersStack
from labkit.errors import ResultsError
from labkit.experiments._passages import load_passages, passages_digest
from labkit.experiments._section import as_profile, run_section
from labkit.experiments.preservation import CONTRACT
from labkit.files import canonical_json, find_root
from labkit.harness import greedy
from labkit.knobs import parse_option
from labkit.profiles import Profile
from labkit.progress import Progress, tell
from labkit.record import (
    Measured,
    RunRecord,
    diff_records,
    identify,
    read_measured,
    read_record,
    write_replay,
)
from labkit.results import RunFolder, resolve_run_dir

SECTION = "records"
PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one of the runs asks for.

    Attributes:
        options: The options, applied one inside another.
        requested: The values that they ask for, by the record's fields, where a field has them.
    """

    options: tuple[str, ...] = ()
    requested: Mapping[str, object] = field(default_factory=dict)


RUNS: dict[str, Asked] = {
    PLAIN: Asked(),
    "reordered": Asked(
        options=("eager_attention", "chunked_prefill:chunk=64"),
        requested={"execution.attention": "eager"},
    ),
    "deployed": Asked(
        options=(
            "quantised_weights:bits=8",
            "window:size=64,sinks=4",
            "stretched_rope:kind=yarn,factor=2.0",
        ),
        requested={
            "execution.weight_rounding": {"bits": 8},
            "execution.window": {"size": 64, "sinks": 4},
        },
    ),
}
# Enough to fill a record, and longer than the window; what options do is measured elsewhere.
_PROMPTS, _PROMPT_TOKENS, _STEPS = 1, 96, 4


def run(
    profile: str | Profile = "quick",
    run_dir: str | Path | None = None,
    *,
    progress: Progress = tell,
) -> dict[str, Any]:
    """Make the three runs with their records, compare them, and return the section.

    Args:
        profile: Names the model, its dtype and the length of the prompt.
        run_dir: The run's folder; "" is the scratch run, None stores nothing. The three stand
            under `records/` there.
        progress: Called after each run.
    """
    settings = as_profile(profile)
    with tempfile.TemporaryDirectory(prefix="labkit-") as scratch:
        home = Path(scratch) if run_dir is None else resolve_run_dir(run_dir)
        return run_section(
            SECTION,
            lambda: _measure(settings, home=home, progress=progress),
            profile=settings,
            run_dir=run_dir,
        )


def _measure(profile: Profile, *, home: Path, progress: Progress) -> dict[str, Any]:
    size = dataclasses.replace(
        profile,
        prompts=_PROMPTS,
        prompt_tokens=min(profile.prompt_tokens, _PROMPT_TOKENS),
        steps=min(profile.steps, _STEPS),
        knobs=(),
        probes=(),
    )
    stack = TransformersStack(
        size.model, dtype=size.dtype, device=size.device, revision=size.revision
    )
    writing_s = {}
    for done, (name, asked) in enumerate(RUNS.items(), start=1):
        writing_s[name] = _run_one(stack, size, asked, folder=home / "records" / name)
        progress(done, len(RUNS), name)
    verdicts, source = _choose_verdicts(home)
    folders = {name: home / "records" / name for name in RUNS}
    records = {name: read_record(folder) for name, folder in folders.items()}
    others = [name for name in RUNS if name != PLAIN]
    rows = [row for name in others for row in _diff_rows(records, name, verdicts)]
    return {
        "rows": rows,
        "runs": [_describe(records[name], name, verdicts) for name in RUNS],
        "preflight": [item.to_json() for item in preflight(folders[PLAIN])],
        "gates": [item.to_json() for item in pass_gates(folders[PLAIN])],
        "summary": {
            "runs": len(records),
            "verdicts": source,
            "writing_ms": round(1000 * max(writing_s.values()), 1),
            **{name: _outcome(records, name, verdicts) for name in others},
            **{
                f"{name}_{effect.replace(' ', '_')}": count
                for name in others
                for effect, count in _counts(records, name, verdicts).items()
            },
            "preflight": dict(Counter(item.answer for item in preflight(folders[PLAIN]))),
        },
    }


def _choose_verdicts(home: Path) -> tuple[Measured, str]:
    """Return the verdicts of this very run where it has measured some, else the published."""
    try:
        return read_measured(home), "this run"
    except ResultsError:
        published = find_root() / "results" / "published-cpu"
        return read_measured(published), "the published cpu run"


@dataclass(slots=True)
class _Clock:
    """Adds up the seconds that go into writing a record, apart from the run itself."""

    seconds: float = 0.0

    def __enter__(self) -> None:
        self.seconds -= time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter()


def _run_one(stack: TransformersStack, profile: Profile, asked: Asked, *, folder: Path) -> float:
    """Run a prompt under some options, with a record and a replay bundle.

    Returns:
        The seconds that the record took.
    """
    writing = _Clock()
    with RunFolder(folder) as held, ExitStack() as applied:
        with writing:
            held.start(command=SECTION, profile=profile.to_json())
        try:
            backend: Backend = stack.backend(profile.dtype)
            for text in asked.options:
                backend = applied.enter_context(parse_option(text).applied(backend))
            assert isinstance(backend, TransformersBackend)
            learned = _generate(backend, stack, profile, folder=folder)
            with writing:
                held.observe(requested=asked.requested, **learned)
        except BaseException as error:
            held.finish(failure=error)
            raise
        with writing:
            held.finish()
    return writing.seconds


def _generate(
    backend: TransformersBackend, stack: TransformersStack, profile: Profile, *, folder: Path
) -> dict[str, Any]:
    """Generate, keep the replay bundle, and return what was seen of the live objects."""
    passages = load_passages(profile.prompts)
    ids = [backend.encode(passage.text)[: profile.prompt_tokens] for passage in passages]
    running, sessions = watched(backend)
    traces = [greedy(running, row, steps=profile.steps) for row in ids]
    names = [passage.name for passage in passages]
    texts = [backend.decode(row) for row in ids]
    write_replay(
        folder,
        prompts=[
            {"name": name, "text": text, "ids": row}
            for name, text, row in zip(names, texts, ids, strict=True)
        ],
        outputs=[
            {"name": name, "ids": list(trace.tokens), "text": backend.decode(trace.tokens)}
            for name, trace in zip(names, traces, strict=True)
        ],
        traces=[
            {"name": name, "margins": list(trace.margins)}
            for name, trace in zip(names, traces, strict=True)
        ],
    )
    seen = observe_model(backend.loaded) | observe_changes(backend) | observe_session(sessions[0])
    digests = observe_prompts(texts, ids) | {"identity.prompts": passages_digest(passages)}
    contract = {**CONTRACT, "evaluation.metric": "none", "evaluation.uncertainty": "none"}
    steps = {"execution.steps": len(traces[0].tokens)}
    return {
        "observed": {**seen, **digests, **contract, **steps},
        "resolved": resolve_model(stack.described),
    }


def _diff_rows(
    records: dict[str, RunRecord], name: str, verdicts: Measured
) -> list[dict[str, Any]]:
    """Return a row for each field in which a run differs from the plain one."""
    found = diff_records(records[PLAIN], records[name], verdicts)
    return [
        {
            "name": f"{name}.{item.field}",
            "run": name,
            "field": item.field,
            "plain": _text(item.left),
            "other": _text(item.right),
            "effect": item.effect,
            "reason": item.reason,
        }
        for item in found.differences
    ]


def _describe(record: RunRecord, name: str, verdicts: Measured) -> dict[str, Any]:
    identity = identify(record, verdicts)
    return {
        "run": name,
        "options": list(RUNS[name].options),
        "identity": identity.sha256,
        "missing": list(identity.missing),
        "changes": [change.field for change in record.changes],
        "files": len(record.artefacts),
    }


def _outcome(records: dict[str, RunRecord], name: str, verdicts: Measured) -> str:
    return diff_records(records[PLAIN], records[name], verdicts).outcome


def _counts(records: dict[str, RunRecord], name: str, verdicts: Measured) -> dict[str, int]:
    return diff_records(records[PLAIN], records[name], verdicts).counts


def _text(value: object) -> str:
    """Return a value as a table shows it; what was not recorded says so."""
    if value is None:
        return "not recorded"
    return value if isinstance(value, str) else canonical_json(value)
