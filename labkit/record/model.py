"""The run record: what ran, on what, how, by which rule it was judged, and where the files lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from labkit.record.layers import (
    LAYERS,
    STAGES,
    EvaluationContract,
    ExecutionPath,
    Identity,
    Json,
    Stated,
    Substrate,
    fields_of_layers,
)

RECORD_VERSION = 2
RECORD_NAME = "record.json"
REPLAY_FOLDER = "replay"

Status = Literal["started", "finished", "failed"]
STATUSES: tuple[Status, ...] = ("started", "finished", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """A file that the run made.

    Attributes:
        path: Where it lies, relative to the run's folder.
        sha256: Digest of its bytes.
        size_bytes: How long it is.
    """

    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A value that was not left as it was asked for.

    Attributes:
        field: `layer.field`.
        requested: What was asked for, where anything was.
        resolved: What it was turned into before the run.
        observed: What was in force.
    """

    field: str
    requested: Json | None
    resolved: Json | None
    observed: Json | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Everything needed to audit a run, and to say how two runs differ.

    Attributes:
        id: Profile name and UTC start, unique enough to tell two runs apart.
        status: `started`, `finished` or `failed`.
        command: The subcommand that ran.
        started_utc: When it started.
        finished_utc: When it ended, once it has.
        elapsed_s: Seconds between the two.
        identity: What was evaluated.
        substrate: The software and hardware below it.
        execution: How the outputs were computed.
        evaluation: How outputs became results.
        artefacts: The files that the run made; known at its end.
        journal_problems: Lines of the journal that could not be read; their units ran again.
        failure: Type and message of what ended the run, if it failed.
    """

    schema_version: int = RECORD_VERSION
    id: str
    status: Status
    command: str
    started_utc: str
    finished_utc: str | None = None
    elapsed_s: float | None = None
    identity: Identity = field(default_factory=Identity)
    substrate: Substrate = field(default_factory=Substrate)
    execution: ExecutionPath = field(default_factory=ExecutionPath)
    evaluation: EvaluationContract = field(default_factory=EvaluationContract)
    artefacts: Sequence[Artefact] = ()
    journal_problems: Sequence[str] = ()
    failure: Mapping[str, str] | None = None

    def stated(self, name: str) -> Stated:
        """Return a field of a layer by `layer.field`."""
        layer, _, key = name.partition(".")
        found: Stated = getattr(getattr(self, layer), key)
        return found

    def in_force(self, name: str) -> Json | None:
        """Return the value of a field that counts, or None where none was seen."""
        return self.stated(name).in_force

    def all_stated(self) -> Iterator[tuple[str, Stated]]:
        """Yield every field of the layers with its name."""
        return ((name, self.stated(name)) for name in fields_of_layers())

    @property
    def changes(self) -> list[Change]:
        """Every value that was changed on its way from the request to the live object."""
        changed = ((name, stated) for name, stated in self.all_stated() if stated.is_changed)
        return [
            Change(field=name, **{stage: getattr(stated, stage) for stage in STAGES})
            for name, stated in changed
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON; stages that were not recorded are left out."""
        plain: dict[str, Any] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            plain[item.name] = _layer_json(value) if item.name in LAYERS else value
        plain["journal_problems"] = list(self.journal_problems)
        plain["failure"] = dict(self.failure) if self.failure is not None else None
        plain["artefacts"] = [dataclasses.asdict(item) for item in self.artefacts]
        plain["changes"] = [dataclasses.asdict(change) for change in self.changes]
        return plain


def _layer_json(layer: Any) -> dict[str, Any]:
    return {item.name: stated_json(getattr(layer, item.name)) for item in dataclasses.fields(layer)}


def stated_json(stated: Stated) -> dict[str, Json]:
    """Return the stages of a field that were recorded."""
    stages = ((stage, getattr(stated, stage)) for stage in STAGES)
    return {stage: value for stage, value in stages if value is not None}
