"""Do declared facts agree with what the device and the stack do when they are tried?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from labkit.admission import RuntimeFacts
from labkit.facts._learn import LearnedFacts

Verdict = Literal["agrees", "contradicts", "unchecked"]

# A declared memory may exceed what is free at this moment by so much, since it comes and goes.
MEMORY_SLACK = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One declared fact beside what was found by trying.

    Attributes:
        fact: The field of `RuntimeFacts`.
        verdict: Whether both agree; `unchecked` where it could not be tried here.
        declared: The value that was declared.
        measured: The value that was found, None where there is none.
        provenance: How the declared value was learned.
        how: How it was tried, or why it was not.
        difference: What exactly differs, in words and numbers.
    """

    fact: str
    verdict: Verdict
    declared: Any
    measured: Any
    provenance: str
    how: str
    difference: str = ""

    def __str__(self) -> str:
        """Return the fact, the verdict, and what it rests on."""
        source = self.provenance.partition(" ")[0].rstrip(":")
        if self.verdict == "contradicts":
            return f"{self.fact} contradicts: {self.difference} ({source}); {self.how}"
        return f"{self.fact} {self.verdict}: declared {self.declared} ({source}); {self.how}"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def check_facts(declared: RuntimeFacts, learned: LearnedFacts) -> tuple[Checked, ...]:
    """Compare every declared fact with the one that was learned by trying.

    A device with less memory than declared contradicts; one with more does not.

    Args:
        declared: The facts somebody relies on.
        learned: The facts of this runtime and device.

    Returns:
        One entry a declared fact, in the order of `RuntimeFacts`.
    """
    findings = {finding.name: finding for finding in learned.findings}
    missing = learned.unlearned()
    names = [f.name for f in fields(declared) if f.name not in ("provenance", *declared.unknown())]
    checked = []
    for name in names:
        ours, theirs = getattr(declared, name), getattr(learned.facts, name)
        if theirs is None:
            difference = _of_what_is_not_there(name, ours, kind=learned.facts.device_kind)
        else:
            difference = _difference(name, ours, theirs)
        verdict: Verdict = "unchecked" if theirs is None else "agrees"
        checked.append(
            Checked(
                fact=name,
                verdict="contradicts" if difference else verdict,
                declared=ours,
                measured=theirs,
                provenance=declared.provenance.get(name, "typed"),
                how=missing[name] if theirs is None else findings[name].how,
                difference=difference,
            )
        )
    return tuple(checked)


def _of_what_is_not_there(name: str, declared: Any, *, kind: str | None) -> str:
    """Return what is wrong with a fact that nothing was found for, or ""."""
    if name == "compute_capability" and kind not in (None, "cuda"):
        return f"declared {declared!r}, a {kind} device has none"
    return ""


def _difference(name: str, declared: Any, measured: Any) -> str:
    """Return what differs, or "" for nothing."""
    if name == "device_memory_bytes":
        enough = 0 <= declared <= measured * MEMORY_SLACK
        return "" if enough else f"declared {declared} bytes, {measured} are free"
    if name == "compute_capability":
        return _plain(declared, measured)  # two numbers, not two names
    if isinstance(declared, Mapping):
        return _of_mappings(declared, measured)
    if isinstance(declared, tuple):
        return _of_names(declared, measured)
    return _plain(declared, measured)


def _plain(declared: Any, measured: Any) -> str:
    return "" if declared == measured else f"declared {declared!r}, found {measured!r}"


def _of_mappings(declared: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    """Compare what is declared; names that are not declared claim nothing."""
    return ", ".join(
        f"{name} declared {value!r}, found {measured.get(name)!r}"
        for name, value in declared.items()
        if measured.get(name) != value
    )


def _of_names(declared: Iterable[str], measured: Iterable[str]) -> str:
    """Compare lists of names; one that is left out is declared as not there."""
    extra = ", ".join(name for name in declared if name not in set(measured))
    left_out = ", ".join(name for name in measured if name not in set(declared))
    parts = [f"{extra} declared and not found"] if extra else []
    return ", ".join([*parts, f"{left_out} found and not declared"] if left_out else parts)
