"""Whether two sets of outputs come from one artefact, as far as the records beside them say."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import OutputsError
from labkit.files import shown
from labkit.outputs import OutputSet
from labkit.record import RECORD_NAME, RunRecord, diff_records, read_record


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What two records say of each other.

    Attributes:
        outcome: As `labkit.record.diff_records` words it; None without both records.
        counts: Differences by what they change.
        not_evaluated: What could not be compared.
    """

    outcome: str | None
    counts: dict[str, int]
    not_evaluated: tuple[str, ...]


def compare_provenance(before: OutputSet, after: OutputSet) -> Provenance:
    """Compare the records that lie beside two files of outputs.

    Raises:
        OutputsError: If a record is of other outputs than the file beside it.
        ResultsError: If a record is no whole one.
    """
    left, right = _record_of(before), _record_of(after)
    if left is None or right is None:
        without = [o.name for o, r in ((before, left), (after, right)) if r is None]
        gap = f"artefact and execution: no {RECORD_NAME} beside {' and '.join(without)}"
        return Provenance(outcome=None, counts={}, not_evaluated=(gap,))
    found = diff_records(left, right)
    gaps = [f"records: {name} is not in both" for name in found.unshown]
    if count := found.counts["question"]:
        gaps.append(f"records: fields of the question that differ: {count}")
    return Provenance(outcome=found.outcome, counts=found.counts, not_evaluated=tuple(gaps))


def _record_of(outputs: OutputSet) -> RunRecord | None:
    path = outputs.path.with_name(RECORD_NAME)
    if not path.is_file():
        return None
    record = read_record(path)
    own = next((a for a in record.artefacts if a.path == outputs.path.name), None)
    if own is None or own.sha256 != outputs.sha256:
        raise OutputsError(
            f"A record must be of the outputs beside it; got {shown(path)} with "
            f"sha256={own.sha256 if own else 'none'} for {outputs.path.name}, whose sha256 is "
            f"{outputs.sha256}. These are outputs of another artefact, or were changed since."
        )
    return record
