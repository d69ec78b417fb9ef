"""Is the verdict right? Options and planted defects of known truth (`make verdicts`).

Every case runs on every architecture it fits, at three precisions, and is judged by the lab
and by four criteria in use elsewhere, all on the same runs. Exit status 1 means that the lab's
verdict was wrong somewhere, or undetermined too often.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCHEMA_VERSION = 1
RULE = "slope"  # the one by which the lab decides
MOST_UNDETERMINED = 0.05


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark, print its table and write its file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=ROOT / "data" / "verdicts" / "verdicts.json")
    parser.add_argument("--subject", action="append", help="part of a name; all by default")
    chosen = parser.parse_args(arguments)
    found = measure(chosen.subject)
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(as_text(found), encoding="utf-8")
    report(found)
    return 0 if holds(found["summary"]["criteria"][RULE]) else 1


def measure(names: list[str] | None) -> dict[str, Any]:
    """Run every case on the subjects and return rows and counts."""
    import torch
    import transformers
    from verdict_bench import defects  # noqa: F401  # registers its cases
    from verdict_bench.cases import CASES
    from verdict_bench.running import run_subject
    from verdict_bench.subjects import SUBJECTS
    from verdict_bench.table import counts_of, rows_of

    began_s = time.perf_counter()
    records = []
    for subject in SUBJECTS:
        if names and not any(name.lower() in subject.name.lower() for name in names):
            continue
        since_s = time.perf_counter()
        records += run_subject(subject, CASES)
        print(f"{subject.name}: {time.perf_counter() - since_s:.0f} s", file=sys.stderr)
    rows = rows_of(records)
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    return {
        "schema_version": SCHEMA_VERSION,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "processor": platform.machine(),
        "summary": {
            "subjects": subjects,
            "cases": {
                truth: len({r["case"] for r in rows if r["truth"] == truth})
                for truth in ("preserves", "changes", "defect")
            },
            "criteria": counts_of(rows),
            "by_subject": {
                name: counts_of([row for row in rows if row["subject"] == name])
                for name in subjects
            },
        },
        "refused": [
            {"subject": r.subject.name, "case": r.case.name, "why": r.refused}
            for r in records
            if r.refused is not None
        ],
        "rows": rows,
        "elapsed_s": round(time.perf_counter() - began_s, 1),
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
