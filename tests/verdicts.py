"""Is the verdict right? Options and planted defects of known truth (`make verdicts`).

Every case runs on every architecture it fits, at three precisions, and is judged by the lab
and by four criteria in use elsewhere, all on the same runs. Exit status 1 means that the lab's
verdict was wrong somewhere, or undetermined too often.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from labkit.files import write_atomically

ROOT = Path(__file__).resolve().parent.parent
SCHEMA_VERSION = 1
RULE = "growth"  # the one by which the lab decides
MOST_UNDETERMINED = 0.05


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark, print its table and write its file after each architecture."""
    from verdict_bench.subjects import SUBJECTS

    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--json", type=Path, default=ROOT / "data" / "verdicts" / "verdicts.json")
    parser.add_argument(
        "--subject",
        action="append",
        help="part of an architecture's name; the file's rows of the others stay",
    )
    parser.add_argument("--case", help="part of a case's name; the file's other rows stay")
    parser.add_argument(
        "--jobs",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="processes at once, each with its share of the cores (default: one a core)",
    )
    chosen = parser.parse_args(arguments)
    wanted = [name.lower() for name in chosen.subject or [""]]
    subjects = [s.name for s in SUBJECTS if any(name in s.name.lower() for name in wanted)]
    if not subjects or chosen.jobs < 1:
        names = ", ".join(subject.name for subject in SUBJECTS)
        parser.error(
            f"there must be a job and an architecture; got jobs={chosen.jobs}, "
            f"subject={chosen.subject}. The architectures are: {names}."
        )
    found = read(chosen.json) if chosen.subject or chosen.case else {}
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    began_s = time.perf_counter()
    for part in measured(subjects, cases=chosen.case or "", jobs=chosen.jobs):
        found = merged(found, part)
        write_atomically(chosen.json, as_text(found))
    if not (chosen.subject or chosen.case):
        wall = {"jobs": chosen.jobs, "wall_s": round(time.perf_counter() - began_s, 1)}
        write_atomically(chosen.json, as_text(found | wall))
    report(found)
    return 0 if holds(found["summary"]["criteria"][RULE]) else 1


def measured(subjects: list[str], *, cases: str, jobs: int) -> Iterator[dict[str, Any]]:
    """Yield each subject's part of the file, once it is measured at every precision.

    A subject at a precision is what a process measures; the largest subject begins first.
    """
    from verdict_bench.running import PRECISIONS

    tasks = [(name, precision) for name in reversed(subjects) for precision in PRECISIONS]
    jobs = min(jobs, len(tasks))
    threads = max(1, len(os.sched_getaffinity(0)) // jobs)
    done: dict[str, dict[str, Any]] = {name: {} for name in subjects}
    with ProcessPoolExecutor(
        max_workers=jobs, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        waiting = {
            pool.submit(measure, name, cases, precision, threads): (name, precision)
            for name, precision in tasks
        }
        for future in as_completed(waiting):
            name, precision = waiting[future]
            done[name][precision] = future.result()
            if len(done[name]) == len(PRECISIONS):
                yield part_of(name, cases, done.pop(name))


def read(path: Path) -> dict[str, Any]:
    """Return a stored benchmark, or nothing if there is none of this schema."""
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return stored if stored.get("schema_version") == SCHEMA_VERSION else {}


def measure(name: str, cases: str, precision: str, threads: int) -> dict[str, Any]:
    """Run the cases whose names contain `cases` on a subject at a precision."""
    import torch
    from verdict_bench.doubles import reference_share
    from verdict_bench.running import PRECISIONS, run_precision

    torch.set_num_threads(threads)
    subject, chosen = chosen_of(name, cases)
    began_s = time.perf_counter()
    parts = run_precision(subject, chosen, precision)
    whole = precision == PRECISIONS[-1] and not cases
    share = {name: reference_share(subject)} if whole else {}
    elapsed_s = round(time.perf_counter() - began_s, 1)
    print(f"{name}, {precision}: {elapsed_s:.0f} s", file=sys.stderr)
    return {"parts": parts, "elapsed_s": elapsed_s, "reference_share": share}


def chosen_of(name: str, cases: str) -> tuple[Any, list[Any]]:
    """Return a subject by its name and the cases whose names contain `cases`."""
    from verdict_bench import defects  # noqa: F401  # registers its cases
    from verdict_bench.cases import CASES
    from verdict_bench.subjects import SUBJECTS

    subject = next(one for one in SUBJECTS if one.name == name)
    return subject, [case for case in CASES if cases in case.name]


def part_of(name: str, cases: str, measured: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a subject's part of the file, from what was measured of it by precision."""
    from verdict_bench.running import gather
    from verdict_bench.table import rows_of

    subject, chosen = chosen_of(name, cases)
    records = gather(subject, chosen, {at: one["parts"] for at, one in measured.items()})
    elapsed_s = round(sum(one["elapsed_s"] for one in measured.values()), 1)
    share = [one["reference_share"] for one in measured.values() if one["reference_share"]]
    return {
        "ran": [record.case.name for record in records],
        "subject": name,
        "elapsed_s": {} if cases else {name: elapsed_s},
        "reference_share": share[0] if share else {},
        "rows": rows_of(records),
        "refused": [
            {"subject": name, "case": record.case.name, "why": record.refused}
            for record in records
            if record.refused is not None
        ],
    }


def merged(stored: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return the file's content with a subject's part in the place of its stored rows."""
    import torch
    import transformers
    from verdict_bench.subjects import SUBJECTS
    from verdict_bench.table import summarise

    order = [one.name for one in SUBJECTS]
    ran = {(part["subject"], case) for case in part["ran"]}

    def put(key: str) -> list[dict[str, Any]]:
        kept = [row for row in stored.get(key, []) if (row["subject"], row["case"]) not in ran]
        return sorted(kept + part[key], key=lambda row: order.index(row["subject"]))

    rows = put("rows")
    return {
        "schema_version": SCHEMA_VERSION,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "processor": platform.machine(),
        "elapsed_s": stored.get("elapsed_s", {}) | part["elapsed_s"],
        "reference_share": stored.get("reference_share", {}) | part["reference_share"],
        "summary": summarise(rows),
        "refused": put("refused"),
        "rows": rows,
    }


def as_text(found: dict[str, Any]) -> str:
    """Return JSON with one row a line, so that a change shows as the lines it touches."""
    head = json.dumps({k: v for k, v in found.items() if k != "rows"}, indent=1)
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in found["rows"])
    return f'{head[:-2]},\n "rows": [\n{rows}\n ]\n}}\n'


def report(found: dict[str, Any]) -> None:
    """Print the counts, and each row that the lab's verdict got wrong or left open."""
    from verdict_bench.table import printed

    print(printed(found["summary"]))
    for row in found["rows"]:
        if row["answers"][RULE] != row["should_be"]:
            small = " (below float32's own rounding, not counted)" if row["small"] else ""
            print(
                f"{row['answers'][RULE]}: {row['subject']}, {row['precision']}, {row['case']}: "
                f"ratio {row['ratio']}, slope {row['slope']} [{row['slope_low']}, "
                f"{row['slope_high']}], effect {row['effect']}{small}"
            )


def holds(count: dict[str, int]) -> bool:
    """Say whether no verdict was wrong and few were left open."""
    wrong = count["false_alarms"] + count["missed"]
    return wrong == 0 and count["undetermined"] <= MOST_UNDETERMINED * count["decisions"]


if __name__ == "__main__":
    sys.exit(main())
