"""Measure the lab's own speed side by side, as ratios, and write them to a file (`make bench`).

Each figure alternates its two sides in one run, so that a slow moment of the machine hits
both, and reports the median over pairs. Exit status 1 means that a figure missed its target.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAIRS = 5
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure.

    Attributes:
        name: What was measured.
        value: The median.
        low: The smallest of the repetitions.
        high: The largest.
        unit: Of all three.
        target: The bound, or None for a figure that is only reported.
        at_most: Whether the bound is an upper one.
        note: What each side of the comparison was.
    """

    name: str
    value: float
    low: float
    high: float
    unit: str
    target: float | None
    at_most: bool
    note: str

    @property
    def holds(self) -> bool:
        """Return whether the median keeps the bound."""
        if self.target is None:
            return True
        return self.value <= self.target if self.at_most else self.value >= self.target


def figure(
    name: str,
    values: Sequence[float],
    *,
    unit: str,
    target: float | None,
    at_most: bool,
    note: str,
) -> Figure:
    """Return a figure from its repetitions."""
    return Figure(
        name=name,
        value=round(statistics.median(values), 4),
        low=round(min(values), 4),
        high=round(max(values), 4),
        unit=unit,
        target=target,
        at_most=at_most,
        note=note,
    )


def seconds(action: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    began_s = time.perf_counter()
    action()
    return time.perf_counter() - began_s


def ratios(left: Callable[[], object], right: Callable[[], object], *, pairs: int) -> list[float]:
    """Return left's time over right's, pair by pair, after one call of each to warm up."""
    left(), right()
    return [seconds(left) / seconds(right) for _ in range(pairs)]


def python(code: str) -> Callable[[], object]:
    """Return a call that runs code in a fresh interpreter and fails loudly."""
    command = [sys.executable, "-c", code]
    return lambda: subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


# ---- figures -----------------------------------------------------------------------------


def bench_greedy() -> Iterator[Figure]:
    """Compare greedy decoding with margins with the library's generation, tokens equal."""
    import torch

    from labkit import models
    from labkit.backends.transformers import TransformersBackend
    from labkit.experiments._passages import load_passages
    from labkit.harness import greedy

    backend = TransformersBackend(loaded=models.load())
    prompts = [backend.encode(passage.text)[:300] for passage in load_passages(3)]
    steps = 24

    def ours() -> list[list[int]]:
        return [list(greedy(backend, ids, steps=steps).tokens) for ids in prompts]

    def theirs() -> list[list[int]]:
        answers = []
        for ids in prompts:
            output = backend.model.generate(
                torch.tensor([ids]),
                max_new_tokens=steps,
                min_new_tokens=steps,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
            answers.append(output.sequences[0, len(ids) :].tolist())
        return answers

    if ours() != theirs():
        raise SystemExit("greedy and generate must choose the same tokens; they do not.")
    yield figure(
        "greedy over generate",
        ratios(ours, theirs, pairs=PAIRS),
        unit="ratio",
        target=1.0,
        at_most=True,
        note=f"3 prompts of 300 tokens, {steps} steps, embedded model, float16, tokens equal",
    )


def bench_preservation() -> Iterator[Figure]:
    """Compare the whole experiment with the bare forward passes that it needs."""
    from labkit.experiments import preservation
    from labkit.profiles import Lane, load_profile

    profile = dataclasses.replace(
        load_profile("cpu"), prompts=4, steps=24, float32_lane=Lane(prompts=2, steps=12)
    )
    pairs = []
    for _ in range(2):
        whole_s = seconds(lambda: preservation.run(profile))
        pairs.append(whole_s / bare_passes_s(profile))
    yield figure(
        "preservation experiment over its bare forward passes",
        pairs,
        unit="ratio",
        target=1.25,
        at_most=True,
        note="13 options, 4 prompts of 300 tokens, 24 steps and the float32 lane, against the same "
        "prefills and steps called directly, without loading, comparing or journalling",
    )


def bare_passes_s(profile: Any) -> float:
    """Return the seconds of an experiment's forward passes alone, at both precisions."""
    from labkit.backends.transformers_stack import TransformersStack
    from labkit.experiments._measuring import as_prompts, lane_sizes
    from labkit.experiments._passages import load_passages
    from labkit.knobs import preservation_table

    stack = TransformersStack(profile.model, dtype=profile.dtype)
    passages = load_passages(profile.prompts)
    total_s = 0.0
    for size in lane_sizes(profile, as_prompts(stack, passages, profile, whole=False)):
        same = size.precision == profile.dtype
        options = [o for o in preservation_table() if o.knob.precision is None or same]
        total_s += _bare_lane_s(size, stack, options)
    return total_s


def _bare_lane_s(size: Any, stack: Any, options: Sequence[Any]) -> float:
    backend, reference = stack.backend(size.precision), stack.backend(size.reference)
    prompts = {p for o in options for g in o.groups(size.prompts_of(o)) for p in g}
    total_s = 0.0
    for prompt in prompts | set(size.prompts):
        total_s += _bare_pass_s(backend, [prompt], size.steps)
        total_s += _bare_pass_s(reference, [prompt], size.steps)
    return total_s + _bare_options_s(backend, size, options)


def _bare_options_s(backend: Any, size: Any, options: Sequence[Any]) -> float:
    total_s = 0.0
    for option in options:
        with option.applied(backend) as variant:
            for group in option.groups(size.prompts_of(option)):
                total_s += _bare_pass_s(variant, group, size.steps)
    return total_s


def _bare_pass_s(backend: Any, group: Sequence[Any], steps: int) -> float:
    longest = max(len(prompt.ids) for prompt in group)
    session = backend.session(capacity_tokens=longest + steps)
    began_s = time.perf_counter()
    session.next_logits([prompt.ids for prompt in group])
    for _ in range(steps - 1):
        session.next_logits([[5]] * len(group))
    return time.perf_counter() - began_s


def bench_memory() -> Iterator[Figure]:
    """Measure the peak memory of the experiment against the weights that its rows need."""
    code = (
        "import resource; from labkit.experiments import preservation as p; "
        "from labkit.profiles import load_profile; "
        "p.run(load_profile('cpu'), knobs=['float32', 'quantised_weights:bits=8']); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    peak_bytes = int(done.stdout.split()[-1]) * 1024
    from labkit import models

    weights = sum(parameter.numel() for parameter in models.load().model.parameters())
    allowed_bytes = weights * (2 + 4 + 8) + GIB
    yield figure(
        "peak memory of the preservation experiment",
        [peak_bytes / allowed_bytes],
        unit="share of the weights in float16, float32 and float64 plus 1 GiB",
        target=1.0,
        at_most=True,
        note=f"all prompts and steps of the cpu profile, the two options that copy the weights: "
        f"{peak_bytes / GIB:.2f} GiB of {allowed_bytes / GIB:.2f} GiB, imports included",
    )


def bench_row() -> Iterator[Figure]:
    """Compare rows that carry the rounding ratio with decoding under their options alone."""
    from labkit.backends.transformers_stack import TransformersStack
    from labkit.experiments._measuring import as_prompts, lane_sizes, measure
    from labkit.experiments._passages import load_passages
    from labkit.journal import Journal
    from labkit.knobs import parse_option
    from labkit.profiles import Lane, load_profile

    profile = dataclasses.replace(
        load_profile("cpu"), prompts=2, steps=24, float32_lane=Lane(prompts=0, steps=0)
    )
    stack = TransformersStack(profile.model, dtype=profile.dtype)
    prompts = as_prompts(stack, load_passages(profile.prompts), profile, whole=False)
    names = ("chunked_prefill:chunk=64", "eager_attention", "sdpa_kernel", "static_cache")
    options = [parse_option(name) for name in names]
    (size,) = lane_sizes(profile, prompts)
    values = []
    for _ in range(3):
        stack.backend(profile.dtype)  # loads what the last round dropped
        with tempfile.TemporaryDirectory() as scratch:
            journal = Journal(Path(scratch) / "journal.jsonl")
            began_s = time.perf_counter()
            section = measure(
                stack,
                profile,
                prompts,
                options,
                journal=journal,
                work=Path(scratch),
                progress=lambda *_: None,
            )
            whole_s = time.perf_counter() - began_s
        values.append(whole_s / _bare_options_s(stack.backend(profile.dtype), size, options))
    same = sum(row["identical"] for row in section["rows"])
    runs = sum(row["runs"] for row in section["rows"])
    yield figure(
        "a row with its rounding ratio over its bare decode",
        values,
        unit="ratio",
        target=2.2,
        at_most=True,
        note=f"{len(options)} runtime rows at one precision, baseline and reference shared, "
        f"{same} of {runs} outputs identical; 2 prompts of 300 tokens, {profile.steps} steps",
    )


def bench_steps() -> Iterator[Figure]:
    """Compare the peak memory of many steps with that of few."""
    code = (
        "import dataclasses, resource, sys; from labkit.experiments import preservation as p; "
        "from labkit.profiles import Lane, load_profile; "
        "small = dataclasses.replace(load_profile('quick'), steps=int(sys.argv[1]), "
        "float32_lane=Lane(prompts=0, steps=0)); "
        "p.run(small, knobs=['static_cache']); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )

    def peak_kib(steps: int) -> int:
        command = [sys.executable, "-c", code, str(steps)]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        return int(done.stdout.split()[-1])

    yield figure(
        "peak memory of 96 steps over that of 8",
        [peak_kib(96) / peak_kib(8) for _ in range(2)],
        unit="ratio",
        target=1.05,
        at_most=True,
        note="one row, embedded model; logits are reduced a step at a time",
    )


def bench_resume() -> Iterator[Figure]:
    """Time the command on a run that is finished: nothing is left to measure."""
    with tempfile.TemporaryDirectory() as folder:
        shell = [sys.executable, "-m", "labkit", "preservation", "--profile", "quick"]

        def call() -> None:
            subprocess.run([*shell, "--run", folder], cwd=ROOT, check=True, capture_output=True)

        call()
        yield figure(
            "resuming a finished run",
            [seconds(call) for _ in range(PAIRS)],
            unit="s",
            target=3.0,
            at_most=True,
            note="labkit preservation from the shell, quick profile, every unit in the journal",
        )


def bench_jobs() -> Iterator[Figure]:
    """Compare two jobs with one on the same cores."""
    from labkit.experiments import preservation
    from labkit.profiles import load_profile

    if len(os.sched_getaffinity(0)) < 2:
        return
    profile = load_profile("quick")
    pairs = []
    for _ in range(2):
        alone_s = seconds(lambda: preservation.run(profile))
        pairs.append(seconds(lambda: preservation.run(profile, jobs=2)) / alone_s)
    yield figure(
        "two jobs over one",
        pairs,
        unit="ratio",
        target=None,
        at_most=True,
        note="quick profile, embedded model, workers started and models loaded included",
    )


def bench_fingerprint() -> Iterator[Figure]:
    """Compare fingerprinting with AutoConfig on the ten configs, fresh and warm."""
    files = sorted((ROOT / "data" / "configs").glob("*.json"))
    names = [str(file) for file in files]
    ours = "from labkit.spec import fingerprint, read_config_file as r; from pathlib import Path; "
    ours += f"[fingerprint(r(Path(f))) for f in {names!r}]"
    theirs = (
        f"from transformers import AutoConfig; [AutoConfig.from_pretrained(f) for f in {names}]"
    )
    yield figure(
        "AutoConfig over fingerprint, fresh process",
        ratios(python(theirs), python(ours), pairs=PAIRS),
        unit="ratio",
        target=50.0,
        at_most=False,
        note="reading the ten configs from a fresh interpreter, imports included",
    )
    yield from _warm_fingerprint(files)


def _warm_fingerprint(files: Sequence[Path]) -> Iterator[Figure]:
    from transformers import AutoConfig

    from labkit.spec import fingerprint, read_config_file

    parsed = [read_config_file(file) for file in files]

    def ours() -> None:
        for _ in range(20):
            for config in parsed:
                fingerprint(config)

    def theirs() -> None:
        for file in files:
            AutoConfig.from_pretrained(str(file))

    warm = [20 * ratio for ratio in ratios(theirs, ours, pairs=PAIRS)]
    yield figure(
        "AutoConfig over fingerprint, warm",
        warm,
        unit="ratio",
        target=None,
        at_most=False,
        note="the same process, everything imported; ours from parsed configs",
    )
    rates = [20 * len(parsed) / seconds(ours) for _ in range(PAIRS)]
    yield figure(
        "fingerprints a second",
        rates,
        unit="1/s",
        target=5000.0,
        at_most=False,
        note="parsed configs, one core",
    )


def bench_admission() -> Iterator[Figure]:
    """Count decisions a second with all rules, and time the command from the shell."""
    from labkit import Request, RuntimeFacts, admit, fingerprint
    from labkit.spec import read_config_file

    spec = fingerprint(read_config_file(ROOT / "data" / "configs" / "llama-3.2-1b.json"))
    request = Request(prompt_tokens=300, max_new_tokens=48)
    facts = RuntimeFacts()
    count = 20_000

    def decide() -> None:
        for _ in range(count):
            admit(spec, request, facts)

    yield figure(
        "decisions a second",
        [count / seconds(decide) for _ in range(PAIRS)],
        unit="1/s",
        target=100_000.0,
        at_most=False,
        note="a plain request, every rule, one core",
    )
    shell = [sys.executable, "-m", "labkit", "admission", "--json"]

    def call() -> None:
        subprocess.run(shell, cwd=ROOT, check=True, capture_output=True)

    yield figure(
        "labkit admission from the shell",
        [seconds(call) for _ in range(PAIRS)],
        unit="s",
        target=0.4,
        at_most=True,
        note="the twelve cases",
    )


def bench_paired() -> Iterator[Figure]:
    """Time the paired comparison of many items: scores, cells, intervals, item table."""
    import random

    from labkit.outputs import Output
    from labkit.paired import Pair, measure_impact
    from labkit.scoring import EXTRACTORS

    count, chance = 100_000, random.Random(7)

    def output(number: int) -> Output:
        answer = chance.choice([5, 5, 5, 6])
        text = f"First come {number}, then 3 more. 2 + 3 = 5, so the answer is {answer}."
        return Output(
            id=str(number),
            cluster=str(number // 8),
            prompt="q",
            reference="5",
            text=text,
            output_tokens=30,
            stop_reason="stop",
        )

    pairs = [Pair(before=output(n), after=output(n)) for n in range(count)]
    yield figure(
        "paired comparison of 100,000 items",
        [seconds(lambda: measure_impact(pairs, EXTRACTORS["last_number"])) for _ in range(PAIRS)],
        unit="s",
        target=5.0,
        at_most=True,
        note="last_number on both sides, four cells, exact test and intervals, 9,999 resamples of "
        "12,500 clusters; reading the files not included",
    )


def bench_import() -> Iterator[Figure]:
    """Time `import labkit` in a fresh interpreter, less the interpreter's own start."""
    bare, ours = python("pass"), python("import labkit")
    ours()
    yield figure(
        "import labkit",
        [max(seconds(ours) - seconds(bare), 0.0) for _ in range(PAIRS)],
        unit="s",
        target=0.1,
        at_most=True,
        note="a fresh interpreter, less the same interpreter doing nothing",
    )


def bench_record() -> Iterator[Figure]:
    """Time what a record adds to a run, and the diff of two from the shell."""
    from labkit.record import read_record
    from labkit.results import RunFolder

    published = ROOT / "results" / "published-cpu"
    before = read_record(published)
    seen = {name: stated.observed for name, stated in before.all_stated() if stated.observed}
    profile = before.in_force("evaluation.profile")

    def write() -> None:
        with tempfile.TemporaryDirectory() as home, RunFolder(home) as folder:
            spent_s = seconds(lambda: folder.start(command="chapter", profile=profile))
            # What the run itself leaves; the record it is written beside is its own.
            shutil.copytree(published, home, dirs_exist_ok=True, ignore=lambda *_: ["record.json"])
            spent_s += seconds(lambda: folder.observe(observed=seen))
            spent_s += seconds(folder.finish)
            spent_ms.append(1000 * spent_s)

    spent_ms: list[float] = []
    write()
    spent_ms.clear()
    for _ in range(PAIRS):
        write()
    yield figure(
        "writing a record",
        spent_ms,
        unit="ms",
        target=50.0,
        at_most=True,
        note="start, observations and end with digests, in a copy of the published cpu run",
    )
    runs = [str(published), str(ROOT / "results" / "published-quick")]
    shell = [sys.executable, "-m", "labkit", "record", "diff", *runs]
    yield figure(
        "labkit record diff from the shell",
        [
            seconds(lambda: subprocess.run(shell, cwd=ROOT, capture_output=True))
            for _ in range(PAIRS)
        ],
        unit="s",
        target=0.3,
        at_most=True,
        note="the two published runs, with the published verdicts",
    )


BENCHES = {
    "record": bench_record,
    "import": bench_import,
    "fingerprint": bench_fingerprint,
    "admission": bench_admission,
    "paired": bench_paired,
    "greedy": bench_greedy,
    "memory": bench_memory,
    "steps": bench_steps,
    "resume": bench_resume,
    "row": bench_row,
    "jobs": bench_jobs,
    "preservation": bench_preservation,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benches named, or all, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benches", nargs="*", help=f"which of {', '.join(BENCHES)}; default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    args = parser.parse_args(arguments)
    if unknown := [name for name in args.benches if name not in BENCHES]:
        parser.error(f"no such bench: {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    figures = []
    for name in args.benches or BENCHES:
        for found in BENCHES[name]():
            figures.append(found)
            bound = "" if found.target is None else f" (target {'≤' if found.at_most else '≥'} "
            bound += "" if found.target is None else f"{found.target:g})"
            mark = "" if found.holds else "  MISSED"
            print(f"{found.name}: {found.value:,.4g} {found.unit}{bound}{mark}", flush=True)
            if args.json:
                _write(args.json, figures)
    return 0 if all(found.holds for found in figures) else 1


def _write(path: Path, figures: Sequence[Figure]) -> None:
    """Write the figures so far, so that a later bench that fails loses none."""
    from labkit.files import dump_json, write_atomically
    from labkit.record import describe_device, package_versions

    report = {
        "figures": [asdict(found) | {"holds": found.holds} for found in figures],
        "python": platform.python_version(),
        "packages": package_versions(),
        "device": describe_device(),
    }
    write_atomically(path, dump_json(report, what=path.name))


if __name__ == "__main__":
    sys.exit(main())
