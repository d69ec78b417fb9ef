"""What must stand beside a result: independent dimensions, none of which implies another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from labkit.errors import EvidenceError
from labkit.evidence.words import known_word

PROVENANCES: Final = ("measured", "external")
VALIDATIONS: Final = ("single_run", "repeated", "cross_family", "hardened")
STATUSES: Final = ("canonical", "boundary", "superseded", "blocked")
CONTRACTS: Final = (
    "task_accuracy",
    "text_reproducibility",
    "distribution_preservation",
    "latency",
    "capacity",
    "cost",
    "energy",
)
SCOPE: Final = ("checkpoint", "task", "workload", "hardware", "software")
QUOTABLE: Final = ("canonical", "boundary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One result's metadata; each dimension is stated, and none is derived from another.

    Attributes:
        provenance: `measured` here, or `external`.
        validation: `single_run`, `repeated`, `cross_family`, or `hardened` against a known fault.
        runs: Runs behind it; more than one for anything but `single_run`.
        families: Model families it was measured on; more than one for `cross_family`.
        scope: The conditions it holds under: checkpoint, task, workload, hardware, software.
        status: `canonical`, `boundary`, `superseded` or `blocked`.
        contract: What kind of property it is about.
        artifact: The data that the figure is made from: a file, with its digest if it has one.
    """

    provenance: str
    validation: str
    runs: int
    families: tuple[str, ...]
    scope: Mapping[str, str]
    status: str
    contract: str
    artifact: str

    def __post_init__(self) -> None:
        known_word(self.provenance, PROVENANCES, what="`provenance`")
        known_word(self.validation, VALIDATIONS, what="`validation`")
        known_word(self.status, STATUSES, what="`status`")
        known_word(self.contract, CONTRACTS, what="`contract`")
        if faults := _of_other_kind(self):
            raise EvidenceError(f"Evidence must be stated in text; got {'; '.join(faults)}.")
        for name in self.scope:
            known_word(name, SCOPE, what="A part of `scope`")
        object.__setattr__(self, "scope", MappingProxyType(dict(self.scope)))
        if faults := [*_unstated(self), *_unsupported(self)]:
            raise EvidenceError(
                f"Evidence must be complete and consistent; got {'; '.join(faults)}."
            )


def evidence_from_json(data: object) -> Evidence:
    """Read evidence from parsed JSON.

    Raises:
        EvidenceError: If a field is unknown, missing, or says something that another denies.
    """
    if not isinstance(data, Mapping):
        raise EvidenceError(f"Evidence must be a JSON object; got {type(data).__name__}.")
    fields = dict(data)
    if isinstance(families := fields.get("families"), list):
        fields["families"] = tuple(families)
    try:
        return Evidence(**fields)
    except TypeError as error:
        known = ", ".join(Evidence.__dataclass_fields__)
        raise EvidenceError(f"Evidence must have the fields {known}; got {error}.") from error


def _of_other_kind(evidence: Evidence) -> list[str]:
    families, scope = evidence.families, evidence.scope
    faults = []
    if not isinstance(families, tuple) or not all(_is_text(name) and name for name in families):
        faults.append(f"families={families!r}, which is no list of names")
    if not isinstance(scope, Mapping) or not all(_is_text(text) for text in scope.values()):
        faults.append(f"scope={scope!r}, which is no object of texts")
    if not _is_text(evidence.artifact):
        faults.append(f"artifact={evidence.artifact!r}, which is no text")
    return faults


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _unstated(evidence: Evidence) -> list[str]:
    faults = [f"no {name} in `scope`" for name in SCOPE if not evidence.scope.get(name)]
    return faults if evidence.artifact else [*faults, "no `artifact`"]


def _unsupported(evidence: Evidence) -> list[str]:
    faults = []
    if isinstance(evidence.runs, bool) or not isinstance(evidence.runs, int) or evidence.runs < 1:
        faults.append(f"runs={evidence.runs!r}, which is no count of runs")
    elif (evidence.runs == 1) != (evidence.validation == "single_run"):
        faults.append(f"validation={evidence.validation} with runs={evidence.runs}")
    if evidence.validation == "cross_family" and len(set(evidence.families)) < 2:
        faults.append(f"validation=cross_family with {len(set(evidence.families))} families")
    return faults
