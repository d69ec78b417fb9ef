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
RULE = "growth"  # the one by which the lab decides
MOST_UNDETERMINED = 0.05


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark, print its table and write its file after each architecture."""
    from verdict_bench.subjects import SUBJECTS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=ROOT / "data" / "verdicts" / "verdicts.json")
    parser.add_argument(
        "--subject",
        action="append",
        help="part of an architecture's name; the file's rows of the others stay",
    )
    parser.add_argument("--case", help="part of a case's name; the file's other rows stay")
    chosen = parser.parse_args(arguments)
    wanted = [name.lower() for name in chosen.subject or [""]]
    subjects = [s for s in SUBJECTS if any(name in s.name.lower() for name in wanted)]
    found = read(chosen.json) if chosen.subject or chosen.case else {}
    for subject in subjects:
        found = with_subject(found, subject, cases=chosen.case or "")
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(as_text(found), encoding="utf-8")
    report(found)
    return 0 if holds(found["summary"]["criteria"][RULE]) else 1


def read(path: Path) -> dict[str, Any]:
    """Return a stored benchmark, or nothing if there is none of this schema."""
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return stored if stored.get("schema_version") == SCHEMA_VERSION else {}


def with_subject(stored: dict[str, Any], subject: Any, *, cases: str) -> dict[str, Any]:
    """Run cases on a subject and put their rows in the place of the stored ones."""
    import torch
    import transformers
    from verdict_bench import defects  # noqa: F401  # registers its cases
    from verdict_bench.cases import CASES
    from verdict_bench.doubles import reference_share
    from verdict_bench.running import run_subject
    from verdict_bench.subjects import SUBJECTS
    from verdict_bench.table import rows_of, summarise

    began_s = time.perf_counter()
    records = run_subject(subject, [case for case in CASES if cases in case.name])
    ran = {(subject.name, record.case.name) for record in records}
    share = {} if cases else {subject.name: reference_share(subject)}
    elapsed_s = round(time.perf_counter() - began_s, 1)
    print(f"{subject.name}: {elapsed_s:.0f} s", file=sys.stderr)
    order = [one.name for one in SUBJECTS]
    rows = sorted(
        _others(stored.get("rows", []), ran) + rows_of(records),
        key=lambda row: order.index(row["subject"]),
    )
    refused = _others(stored.get("refused", []), ran)
    refused += [
        {"subject": subject.name, "case": r.case.name, "why": r.refused}
        for r in records
        if r.refused is not None
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "processor": platform.machine(),
        "elapsed_s": stored.get("elapsed_s", {}) | ({} if cases else {subject.name: elapsed_s}),
        "reference_share": stored.get("reference_share", {}) | share,
        "summary": summarise(rows),
        "refused": refused,
        "rows": rows,
    }


def _others(rows: list[dict[str, Any]], ran: set[tuple[str, str]]) -> list[dict[str, Any]]:
    return [row for row in rows if (row["subject"], row["case"]) not in ran]


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
