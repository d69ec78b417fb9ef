"""The gates of a run that failed, stalled or looks wrong, in the order in which they are asked.

Until all six hold, an odd result is an incident and says nothing about a model. What could not
be looked at does not pass. A gate of your own is a function with `@gate`, and a case in the tests.
"""

from __future__ import annotations

from labkit.audit._registry import Found, gate, judged
from labkit.audit.evidence import RunEvidence
from labkit.record import PRESERVING

# What a gate compares: asked for and seen must be one value.
_OF_RUNTIME = ("execution.dtype", "execution.steps")
_OF_TOKENIZER = ("identity.tokenizer", "identity.chat_template", "substrate.transformers")


@gate(number=1)
def required_artefact(run: RunEvidence) -> Found:
    """The results follow their schema, and there are measured rows or outputs."""
    if run.results_fault:
        return "does not hold", run.results_fault
    rows = sum(1 for _ in run.rows())
    return judged(rows + len(run.outputs) > 0, f"{rows} rows and {len(run.outputs)} outputs")


@gate(number=2)
def real_operation(run: RunEvidence) -> Found:
    """The run came to its end, and something was really computed, not only described."""
    if run.record.status != "finished":
        failure = run.record.failure or {"type": "no failure on file", "message": ""}
        return "does not hold", f"status={run.record.status!r}: {failure['type']}"
    computed = run.record.stated("execution.prefill_pieces").observed
    if computed is None:
        return "not evaluated", "no live pass is on file: execution.prefill_pieces not observed"
    return "holds", f"a live pass over {computed} tokens"


@gate(number=3)
def device_and_process(run: RunEvidence) -> Found:
    """The device that was asked for is the one that computed, and nothing is half-written."""
    stated = run.record.stated("execution.device")
    scraps = [path.name for path in run.folder.glob(".*.part")]
    if scraps:
        return "does not hold", f"half-written: {', '.join(sorted(scraps))}"
    if stated.observed is None:
        return "not evaluated", "execution.device was not observed"
    if stated.requested is None:
        return "not evaluated", f"no device was asked for; seen {stated.observed}"
    found = f"asked for {stated.requested}, seen {stated.observed}"
    return judged(stated.requested == stated.observed, found)


@gate(number=4)
def checkpoint_identity(run: RunEvidence) -> Found:
    """The checkpoint has a digest, the same in record and results, and the files are the run's."""
    if run.file_faults:
        return "does not hold", "; ".join(run.file_faults)
    recorded = run.record.in_force("identity.checkpoint")
    if recorded is None:
        return "not evaluated", "identity.checkpoint was not recorded"
    said = (run.results["run"].get("model") or {}).get("digest")
    return judged(said == recorded, f"record has {recorded}, results have {said}")


@gate(number=5)
def runtime_matches(run: RunEvidence) -> Found:
    """Dtype, steps, tokenizer and template were seen live, and what was asked for is what ran."""
    names = (*_OF_RUNTIME, *_OF_TOKENIZER)
    if lacks := [name for name in names if run.record.stated(name).observed is None]:
        return "not evaluated", f"not observed: {', '.join(lacks)}"
    changed = [c.field for c in run.record.changes if c.field in names]
    return judged(not changed, f"changed on the way: {', '.join(changed) or 'nothing'}")


@gate(number=6)
def plausible(run: RunEvidence) -> Found:
    """Outputs are not empty, the journal is whole, and the controls changed nothing."""
    faults = list(run.record.journal_problems)
    faults += [f"empty output of {line.get('name')}" for line in run.outputs if not line.get("ids")]
    controls = [row for name, row in run.rows() if name == "preservation"]
    controls = [row for row in controls if row["kind"] == "control"]
    preserving = sum(row["verdict"] == PRESERVING for row in controls)
    faults += [f"control {c['knob']}: {c['verdict']}" for c in controls if _is_odd(c["verdict"])]
    if faults:
        return "does not hold", "; ".join(faults)
    if not preserving:
        return "not evaluated", f"{len(run.outputs)} outputs; not evaluated: controls, none was run"
    return "holds", f"{len(run.outputs)} outputs, {preserving} controls as they should be"


def _is_odd(verdict: str) -> bool:
    """Say whether a control, which changes nothing, was found to."""
    return verdict not in (PRESERVING, "not applicable")
