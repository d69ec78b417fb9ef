"""A run as a span of OpenTelemetry: `gen_ai.*` where the conventions have a name."""

from __future__ import annotations

from typing import Any

from labkit.errors import RunError
from labkit.files import canonical_json
from labkit.record import NOTHING_MEASURED, Measured, RunRecord, identify

OWN = "labkit.record"


def as_span(record: RunRecord, measured: Measured = NOTHING_MEASURED) -> dict[str, Any]:
    """Return a record as a span: name, times, status and attributes.

    What the conventions have no name for stands under `labkit.record.`; what was not recorded
    is left out, and listed in `labkit.record.not_recorded`.

    Args:
        record: The record.
        measured: The lab's verdicts, which decide with the record what belongs to the identity.

    Raises:
        RunError: If the package of the conventions is missing.
    """
    names, identity = _names(), identify(record, measured)
    operation = "text_completion"
    model = record.in_force("identity.model")
    known = {
        names.GEN_AI_OPERATION_NAME: operation,
        names.GEN_AI_PROVIDER_NAME: "labkit",
        names.GEN_AI_REQUEST_MODEL: record.stated("identity.model").requested,
        names.GEN_AI_RESPONSE_MODEL: model,
        names.GEN_AI_RESPONSE_ID: record.id,
        names.GEN_AI_REQUEST_MAX_TOKENS: record.in_force("execution.steps"),
        f"{OWN}.identity_sha256": identity.sha256,
        f"{OWN}.identity_whole": not identity.missing,
        f"{OWN}.identity_missing": list(identity.missing),
        f"{OWN}.identity_verdicts": identity.verdicts,
        "error.type": record.failure["type"] if record.failure else None,
    }
    stated = {name: record.in_force(name) for name, _ in record.all_stated()}
    own = {f"{OWN}.{name}": _attribute(value) for name, value in stated.items()}
    known[f"{OWN}.not_recorded"] = [name for name, value in stated.items() if value is None]
    return {
        "name": f"{operation} {model}" if model else operation,
        "start_time": record.started_utc,
        "end_time": record.finished_utc,
        "status": {"finished": "OK", "failed": "ERROR"}.get(record.status, "UNSET"),
        "attributes": {key: value for key, value in (known | own).items() if value is not None},
    }


def _attribute(value: Any) -> Any:
    """Return a value as an attribute may be: a scalar, or a text where it is an object."""
    return value if value is None or isinstance(value, str | int | float) else canonical_json(value)


def _names() -> Any:
    try:
        # The conventions keep what may still change under this name.
        from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
    except ModuleNotFoundError as error:
        raise RunError(
            "OpenTelemetry's names need the package opentelemetry-semantic-conventions, which is "
            "not installed. Install `labkit[exports]`, or call `make setup`."
        ) from error
    return gen_ai_attributes
