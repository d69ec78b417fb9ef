"""Two records, field by field: what a difference changes, and how that is known.

A field's class is declared once, in the table of layers, and the verdicts that the lab measured
can only make it graver: a finding on some prompts that nothing changed does not prove that a
window is no window.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

from labkit.files import digest_of
from labkit.record.layers import FieldInfo, Json, Stated, fields_of_layers
from labkit.record.measured import (
    DIFFERENT,
    NOTHING_MEASURED,
    PRESERVING,
    Measured,
    MeasuredOption,
    in_words,
)
from labkit.record.model import RunRecord, Status

Options = tuple[MeasuredOption, ...]
Judged = Literal["artefact", "undetermined", "not recorded", "question", "arithmetic", "place"]
JUDGED: tuple[Judged, ...] = (
    "artefact",
    "undetermined",
    "not recorded",
    "question",
    "arithmetic",
    "place",
)
SAME, ANOTHER, UNSHOWN = "same artefact", "another artefact", "not shown to be the same artefact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field in which two records differ, or which one of them lacks.

    Attributes:
        field: `layer.field`.
        left: The value in force in the first record; None was not recorded.
        right: That of the second.
        effect: What the difference changes.
        reason: How that is known: declared, or measured.
    """

    field: str
    left: Json | None
    right: Json | None
    effect: Judged
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDiff:
    """How two records differ.

    Attributes:
        outcome: Whether the two runs had the same artefact, as far as both recorded.
        differences: The fields that differ, the gravest first.
        not_compared: Fields that neither recorded; of them nothing is known.
        unshown: Those among them, or on one side only, that the identity needs.
        verdicts: Where the measured verdicts come from.
        statuses: How the two runs ended, or that they have not.
    """

    outcome: str
    differences: tuple[Difference, ...]
    not_compared: tuple[str, ...]
    unshown: tuple[str, ...]
    verdicts: str
    statuses: tuple[Status, Status]

    @property
    def counts(self) -> dict[str, int]:
        """How many differences there are of each effect."""
        found = Counter(item.effect for item in self.differences)
        return {effect: found[effect] for effect in JUDGED}

    def to_json(self) -> dict[str, Any]:
        """Return the diff as plain JSON."""
        return {
            "outcome": self.outcome,
            "counts": self.counts,
            "differences": [asdict(item) for item in self.differences],
            "not_compared": list(self.not_compared),
            "unshown": list(self.unshown),
            "verdicts": self.verdicts,
            "statuses": list(self.statuses),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityDigest:
    """What makes a run's artefact the one it is.

    Attributes:
        sha256: Digest over the fields below, by name and value.
        fields: Every field that is not function-preserving, with the value in force.
        missing: Those of them that were not recorded; with any, the digest is of what is known.
        verdicts: Where the measured verdicts come from.
    """

    sha256: str
    fields: dict[str, Json | None]
    missing: tuple[str, ...]
    verdicts: str

    def to_json(self) -> dict[str, Any]:
        """Return the identity as plain JSON."""
        return {**asdict(self), "missing": list(self.missing), "whole": not self.missing}


def identify(record: RunRecord, measured: Measured = NOTHING_MEASURED) -> IdentityDigest:
    """Return the digest over exactly the fields that are not function-preserving.

    Args:
        record: The record.
        measured: The lab's verdicts; an option found to be another artefact joins the identity.
    """
    fields = {name: record.in_force(name) for name in _identifying(record, measured)}
    missing = tuple(name for name, value in fields.items() if value is None)
    return IdentityDigest(
        sha256=digest_of(fields), fields=fields, missing=missing, verdicts=measured.source
    )


def _identifying(record: RunRecord, measured: Measured) -> list[str]:
    """Return the fields of a record's identity: those declared so, and those measured to be."""
    return [
        name
        for name, info in fields_of_layers().items()
        if info.effect == "artefact" or _is_found_different(record, info, measured)
    ]


def _is_found_different(record: RunRecord, info: FieldInfo, measured: Measured) -> bool:
    rows = measured.of_value(info, record.in_force(info.name))
    return info.effect == "arithmetic" and any(row.verdict == DIFFERENT for row in rows)


def diff_records(
    left: RunRecord, right: RunRecord, measured: Measured = NOTHING_MEASURED
) -> RecordDiff:
    """Compare two records field by field.

    Args:
        left: One record.
        right: The other.
        measured: The lab's verdicts on the options that set some of the fields.
    """
    differences, silent = [], []
    for name, info in fields_of_layers().items():
        a, b = left.stated(name), right.stated(name)
        if a.in_force is None and b.in_force is None:
            silent.append(name)
        elif a.in_force != b.in_force:
            differences.append(_difference(info, a, b, measured))
    differences.sort(key=lambda item: JUDGED.index(item.effect))
    needed = {*_identifying(left, measured), *_identifying(right, measured)}
    one_sided = [item.field for item in differences if item.effect == "not recorded"]
    unshown = tuple(name for name in (*one_sided, *silent) if name in needed)
    return RecordDiff(
        outcome=_outcome(differences, unshown),
        differences=tuple(differences),
        not_compared=tuple(silent),
        unshown=unshown,
        verdicts=measured.source,
        statuses=(left.status, right.status),
    )


def _outcome(differences: list[Difference], unshown: tuple[str, ...]) -> str:
    effects = {item.effect for item in differences}
    if "artefact" in effects:
        return ANOTHER
    return UNSHOWN if unshown or "undetermined" in effects else SAME


def _difference(info: FieldInfo, left: Stated, right: Stated, measured: Measured) -> Difference:
    effect, reason = _judge(info, left.in_force, right.in_force, measured)
    return Difference(
        field=info.name, left=left.in_force, right=right.in_force, effect=effect, reason=reason
    )


def _judge(
    info: FieldInfo, left: Json | None, right: Json | None, measured: Measured
) -> tuple[Judged, str]:
    """Return what a difference changes, and how that is known."""
    exact = (*measured.of_value(info, left), *measured.of_value(info, right))
    if left is None or right is None:
        side = "first" if left is None else "second"
        found = f"; measured: {in_words(exact)}" if exact else ""
        return "not recorded", f"the {side} record does not say; declared: {info.effect}{found}"
    others = (*measured.of_others(info, left), *measured.of_others(info, right))
    if info.effect == "artefact":
        return "artefact", f"declared: {info.what}" + (f"; {in_words(exact)}" if exact else "")
    if info.effect == "arithmetic" and (exact or others):
        return _weigh(exact, others)
    return info.effect, f"declared: {info.what}"


def _weigh(exact: Options, others: Options) -> tuple[Judged, str]:
    """Return the effect of a setting by its verdicts, those of the very value first."""
    rows = _distinct(exact or others)
    verdicts = {row.verdict for row in rows}
    how = "measured" if exact else "measured at other values only"
    if verdicts == {PRESERVING}:
        return "arithmetic", f"{how}: {in_words(rows)}"
    if exact and DIFFERENT in verdicts:
        return "artefact", f"{how}: {in_words(rows)}"
    return "undetermined", f"{how}: {in_words(rows)}"


def _distinct(options: Options) -> Options:
    """Return options without repeats, in their order."""
    return tuple(option for place, option in enumerate(options) if option not in options[:place])
