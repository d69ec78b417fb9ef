"""Records in the forms that others read: Process Run Crate, and OpenTelemetry's names."""

from labkit.exports.opentelemetry import as_span
from labkit.exports.ro_crate import write_crate

__all__ = ["as_span", "write_crate"]
