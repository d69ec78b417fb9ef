"""Every exception that labkit raises on purpose.

A `LabError` is a caller's mistake or a fact of the world (no disk, no network) that the
command line turns into one message and an exit code, never into a traceback. Its text says
what must hold, what was found, and what to do.
"""

from __future__ import annotations

EXIT_HOLDS = 0
EXIT_DOES_NOT_HOLD = 1
EXIT_BAD_INPUT = 2


class LabError(Exception):
    """Base of all errors raised on purpose."""


class ConfigError(LabError):
    """A checkpoint's config is broken, inconsistent, or not one of a causal language model."""


class RequestError(LabError):
    """A request or a set of runtime facts has unknown or ill-typed fields."""


class ModelError(LabError):
    """A model cannot be named, fetched, verified or loaded."""


class KnobError(LabError):
    """A knob is unknown or has wrong parameters."""


class NotApplicable(LabError):
    """A knob has nothing to change in this model or on this stack."""


class NotApplied(LabError):
    """A knob was requested and its effect cannot be seen in the live model."""


class ProbeError(LabError):
    """A probe is unknown or its evidence is malformed."""


class OutputsError(LabError):
    """Frozen outputs cannot be read, scored, or paired with one another."""


class ProfileError(LabError):
    """A profile or a notebook parameter is unknown, missing or of the wrong type."""


class PromptError(LabError):
    """A prompt is empty, too long for the model, or differs from the frozen one."""


class ResultsError(LabError):
    """A results file, record or journal is missing, corrupt or of another schema version."""


class RunError(LabError):
    """A run cannot go on: a full disk, a second process on the same folder, a failed notebook."""


class ReleaseError(LabError):
    """A release of a library cannot be named, installed or asked."""


class PlanningError(LabError):
    """A quantity, pool, length or price is not usable, or two denominators are mixed."""


class EvidenceError(LabError):
    """A claim is stronger than its evidence, or evidence is not stated in the known words."""
