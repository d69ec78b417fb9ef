"""The JSON Schema of a record, made from the same classes that the record is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labkit.record.layers import LAYERS, STAGES, FieldInfo, fields_of_layers
from labkit.record.model import RECORD_VERSION, STATUSES

SCHEMA_FILE = Path(__file__).with_name("record.schema.json")
UTC = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"
SHA256 = "^[0-9a-f]{64}$"


def load_record_schema() -> dict[str, Any]:
    """Return the schema that lies in the package."""
    schema: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return schema


def make_record_schema() -> dict[str, Any]:
    """Return the schema that the classes stand for."""
    text = {"type": "string"}
    utc = {"type": "string", "pattern": UTC}
    properties = {
        "schema_version": {"const": RECORD_VERSION},
        "id": {"type": "string", "minLength": 1},
        "status": {"enum": list(STATUSES)},
        "command": {"type": "string", "minLength": 1},
        "started_utc": utc,
        "finished_utc": {**utc, "type": ["string", "null"]},
        "elapsed_s": {"type": ["number", "null"], "minimum": 0},
        **{layer: _layer(layer) for layer in LAYERS},
        "artefacts": {"type": "array", "items": _closed(_ARTEFACT)},
        "journal_problems": {"type": "array", "items": text},
        "failure": {**_closed({"type": text, "message": text}), "type": ["object", "null"]},
        "changes": {
            "type": "array",
            "items": _closed({"field": text, **_ANYTHING}),
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Record of one run of the lab",
        **_closed(properties),
    }


_ANYTHING: dict[str, Any] = {stage: {} for stage in STAGES}
_ARTEFACT = {
    "path": {"type": "string", "minLength": 1},
    "sha256": {"type": "string", "pattern": SHA256},
    "size_bytes": {"type": "integer", "minimum": 0},
}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """Return an object that has exactly these properties."""
    return {
        "type": "object",
        "required": list(properties),
        "additionalProperties": False,
        "properties": properties,
    }


def _layer(layer: str) -> dict[str, Any]:
    known = fields_of_layers().values()
    own = {info.name.partition(".")[2]: info for info in known if info.name.startswith(f"{layer}.")}
    return _closed({name: _field(info) for name, info in own.items()})


def _field(info: FieldInfo) -> dict[str, Any]:
    """Return a field's schema: any of the three stages, each of the field's types."""
    return {
        "description": f"{info.what} (a difference changes the {info.effect})",
        "type": "object",
        "additionalProperties": False,
        "properties": {stage: {"type": list(info.holds)} for stage in STAGES},
    }
