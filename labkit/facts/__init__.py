"""Learn runtime facts by rendering, running, compiling, timing and reading the device."""

from __future__ import annotations

from labkit.facts._conformance import Checked, check_facts
from labkit.facts._finding import Finding
from labkit.facts._learn import LearnedFacts, derive_facts, learn_facts

__all__ = ["Checked", "Finding", "LearnedFacts", "check_facts", "derive_facts", "learn_facts"]
