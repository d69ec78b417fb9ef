"""Put the findings together as the facts that admission reads."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from labkit.admission import RuntimeFacts
from labkit.facts._device import learn_device
from labkit.facts._finding import Finding
from labkit.facts._runtime import learn_runtime
from labkit.facts._template import learn_template

_NOT_TRIED = {
    "compile_available": "not tried: compiling was left out",
    "softcap_implementations": "not tried: this architecture has no soft-cap",
    "window_supported": "not tried: this architecture has no window of its own",
    "generation_defaults": "not tried: it needs a model",
}
_NEEDS_A_TOKENIZER = "not tried: it needs a model with its tokenizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedFacts:
    """Facts with the evidence for each, and when they were learned.

    Attributes:
        facts: What `admit` reads; each fact learned here is marked as measured.
        findings: One entry a fact, with how it was learned.
        learned_utc: When, ISO 8601.
    """

    facts: RuntimeFacts
    findings: tuple[Finding, ...]
    learned_utc: str

    def to_json(self) -> dict[str, Any]:
        """Return one row a fact: name, value, how it was learned and when."""
        rows = [
            {"fact": f.name, "value": f.value, "how": f"measured: {f.how}"} for f in self.findings
        ]
        return {"learned_utc": self.learned_utc, "rows": rows}

    def to_facts_json(self) -> dict[str, Any]:
        """Return the facts as `RuntimeFacts.from_json` reads them, the unknown ones left out."""
        known = {f.name: getattr(self.facts, f.name) for f in fields(self.facts)}
        return {name: value for name, value in known.items() if value is not None}

    def unlearned(self) -> dict[str, str]:
        """Return each fact that is still unknown, with why."""
        tried = {finding.name: finding.how for finding in self.findings}
        return {name: tried.get(name, _not_tried(name)) for name in self.facts.unknown()}


def _not_tried(name: str) -> str:
    return _NOT_TRIED.get(name, _NEEDS_A_TOKENIZER)


def learn_facts(
    model: Any = None,
    device: str = "cpu",
    *,
    tokenizer: Any = None,
    thorough: bool = False,
    compile_here: bool = True,
    attention: Sequence[str] = (),
) -> LearnedFacts:
    """Learn the facts of a runtime by trying it, each with how it was learned.

    Args:
        model: A causal language model; without one a tiny Llama stands for the architecture.
        device: Where to run and time, as torch spells it.
        tokenizer: Its tokenizer, with the chat template; without one its facts stay unknown.
        thorough: Whether to try what takes more than ten seconds as well (FlexAttention).
        compile_here: Whether to compile a small function, which takes some seconds.
        attention: Further names of attention implementations to try.
    """
    learned_utc = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    findings = [
        *learn_device(device, compile_here=compile_here),
        *learn_runtime(model, device, thorough=thorough, attention=attention),
        *([] if tokenizer is None else learn_template(tokenizer)),
    ]
    known = {finding.name: finding.value for finding in findings if finding.value is not None}
    provenance = {
        finding.name: f"measured {learned_utc}: {finding.how}"
        for finding in findings
        if finding.value is not None
    }
    return LearnedFacts(
        facts=RuntimeFacts(**known, provenance=provenance),
        findings=tuple(findings),
        learned_utc=learned_utc,
    )


def derive_facts(model: Any = None, device: str = "cpu", **options: Any) -> RuntimeFacts:
    """Return the facts alone; `learn_facts` has the options and keeps the evidence beside them."""
    return learn_facts(model, device, **options).facts
