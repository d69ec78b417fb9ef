"""Ask the checks of the preflight, and the gates one after another."""

from __future__ import annotations

from pathlib import Path

from labkit.audit._registry import CHECKS, GATES, Finding
from labkit.audit.evidence import gather


def preflight(folder: Path) -> list[Finding]:
    """Return what every check finds in a run's folder, in the order of the stages.

    Raises:
        ResultsError: If the folder has no valid record.
    """
    run = gather(folder)
    return [check.ask(run) for check in CHECKS.values()]


def pass_gates(folder: Path) -> list[Finding]:
    """Return what the gates find, in their order; after the first that stays shut none is asked.

    Raises:
        ResultsError: If the folder has no valid record.
    """
    run = gather(folder)
    findings: list[Finding] = []
    for gate in sorted(GATES.values(), key=lambda item: int(item.stage)):
        shut = next((item for item in findings if item.answer != "holds"), None)
        findings.append(gate.skip(f"gate {shut.stage} is shut") if shut else gate.ask(run))
    return findings
