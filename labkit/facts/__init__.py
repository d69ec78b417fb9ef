"""Learn runtime facts by rendering, running, compiling, timing and reading the device."""

from __future__ import annotations

from labkit.facts._finding import Finding
from labkit.facts._learn import LearnedFacts, derive_facts, learn_facts

__all__ = ["Finding", "LearnedFacts", "derive_facts", "learn_facts"]
