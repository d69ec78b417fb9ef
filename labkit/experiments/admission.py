"""The twelve admission cases: requests that mirror the probes, decided before any work."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from labkit.admission import Request, RuntimeFacts, admit
from labkit.errors import RequestError
from labkit.experiments._section import as_profile, run_section
from labkit.files import data_file, shown
from labkit.profiles import Profile
from labkit.progress import Progress, tell
from labkit.rules._files import read_text
from labkit.rules._json import parse_json
from labkit.spec import fingerprint, read_config_file

SECTION = "admission"
CASES = ("admission", "cases.json")


def run(
    profile: str | Profile = "quick",
    run_dir: str | Path | None = None,
    *,
    progress: Progress = tell,
) -> dict[str, Any]:
    """Decide the twelve cases and return the section.

    Args:
        profile: The profile in force; it is only recorded.
        run_dir: The run's folder; "" is the scratch run, None stores nothing.
        progress: Called after each case.
    """
    return run_section(
        SECTION,
        lambda: _measure(progress),
        profile=as_profile(profile),
        run_dir=run_dir,
    )


def _measure(progress: Progress) -> dict[str, Any]:
    path = data_file(*CASES)
    cases: Any = parse_json(read_text(path), what=shown(path))
    if not isinstance(cases, list):
        raise RequestError(f"The cases must be a JSON list; got {type(cases).__name__}.")
    rows = []
    for done, case in enumerate(cases, start=1):
        rows.append(_decide_case(case))
        progress(done, len(cases), str(case["case"]))
    return {"rows": rows, "summary": _summarise(rows)}


def _decide_case(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case's row: what was asked, what is known, and the decision."""
    config = data_file("configs", f"{case['spec']}.json")
    decision = admit(
        fingerprint(read_config_file(config), case["spec"]),
        Request.from_json(case["request"]),
        RuntimeFacts.from_json(case["facts"]),
    )
    decided = decision.to_json()
    return {**case, "outcome": decided["outcome"], "reasons": decided["reasons"]}


def _summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    counts = Counter(row["outcome"] for row in rows)
    return {
        "cases": len(rows),
        **{outcome: counts[outcome] for outcome in ("accept", "warn", "reject")},
        "as_expected": sum(row["outcome"] == row["expected"] for row in rows),
        "reasons": sum(len(row["reasons"]) for row in rows),
    }
