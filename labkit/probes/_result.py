"""Turn a probe's evidence into its row: the outcome is computed, never typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from labkit.probes._capture import Attempt

Outcome = Literal["refused", "warned", "silent", "not_askable"]
OUTCOMES: tuple[Outcome, ...] = ("refused", "warned", "silent", "not_askable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a probe hands back.

    Attributes:
        attempt: The asked call, recorded; None where the device cannot be asked.
        control: The same call without the request, recorded; what it says as well is background.
        did_it: Whether the measured effect is the requested one; not read when the call raised.
        effect: One sentence on what was measured.
        measured: The numbers and texts behind `did_it`.
        stand_in: What stood in for a checkpoint or template that was not at hand.
        why_not_askable: Why this device or environment cannot be asked.
    """

    attempt: Attempt[Any] | None = None
    control: Attempt[Any] | None = None
    did_it: bool | None = None
    effect: str = ""
    measured: Mapping[str, Any] = field(default_factory=dict)
    stand_in: str | None = None
    why_not_askable: str | None = None


def not_askable(reason: str, **measured: Any) -> Evidence:
    """Return the evidence of a probe that this device or environment cannot ask."""
    return Evidence(why_not_askable=reason, measured=measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """One probe's row, with the evidence that its outcome was computed from."""

    probe: str
    number: int | None
    asked: str
    outcome: Outcome
    did_it: bool | None
    substituted: bool
    said: str
    evidence: Mapping[str, Any]
    stand_in: str | None
    why_not_askable: str | None
    source_outcome: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the row as it stands in results.json."""
        return {
            "number": self.number,
            "probe": self.probe,
            "asked": self.asked,
            "outcome": self.outcome,
            "did_it": self.did_it,
            "substituted": self.substituted,
            "said": self.said,
            "evidence": dict(self.evidence),
            "stand_in": self.stand_in,
            "why_not_askable": self.why_not_askable,
            "source_outcome": self.source_outcome,
        }


def classify(evidence: Evidence) -> Outcome:
    """Return what the stack did: an exception outranks a message, a message outranks silence."""
    if evidence.attempt is None:
        return "not_askable"
    if evidence.attempt.raised:
        return "refused"
    return "warned" if _heard(evidence.attempt, evidence.control).messages else "silent"


def judge(
    evidence: Evidence,
    *,
    probe: str,
    number: int | None,
    asked: str,
    source_outcome: str | None = None,
) -> ProbeResult:
    """Return the row of one probe from its evidence."""
    outcome = classify(evidence)
    went_on = outcome in ("warned", "silent")
    did_it = {"refused": False, "not_askable": None}.get(outcome, evidence.did_it)
    heard = None if evidence.attempt is None else _heard(evidence.attempt, evidence.control)
    return ProbeResult(
        probe=probe,
        number=number,
        asked=asked,
        outcome=outcome,
        did_it=did_it,
        substituted=went_on and did_it is False,
        said=heard.said if heard else "",
        evidence={
            **(heard.to_json() if heard else {"exception": None, "messages": []}),
            "background": _background(evidence.control),
            "effect": evidence.effect,
            "measured": dict(evidence.measured),
        },
        stand_in=evidence.stand_in,
        why_not_askable=evidence.why_not_askable,
        source_outcome=source_outcome,
    )


def summarise_probes(results: Iterable[ProbeResult]) -> dict[str, int]:
    """Count the outcomes of the numbered probes; what was not askable is not in `asked`."""
    numbered = [result for result in results if result.number is not None]
    counts = Counter(result.outcome for result in numbered)
    return {
        **{outcome: counts[outcome] for outcome in OUTCOMES},
        "asked": len(numbered) - counts["not_askable"],
        "substituted": sum(r.substituted for r in numbered),
        "silent_substitutions": sum(r.substituted and r.outcome == "silent" for r in numbered),
    }


def _heard(asked: Attempt[Any], control: Attempt[Any] | None) -> Attempt[Any]:
    """Return the asked call's attempt without what its control said as well."""
    return asked if control is None else asked.beyond(control)


def _background(control: Attempt[Any] | None) -> list[dict[str, str]]:
    """Return what the control said, kept so that a reader can check the subtraction."""
    return [] if control is None else [message.to_json() for message in control.messages]
