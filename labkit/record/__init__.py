"""The run record: created before a run, filled from what ran, sealed with its files' digests."""

from labkit.record.diffing import ANOTHER as ANOTHER_ARTEFACT
from labkit.record.diffing import SAME as SAME_ARTEFACT
from labkit.record.diffing import Difference, RecordDiff, diff_records, identify
from labkit.record.layers import STAGES, Stated, fields_of_layers
from labkit.record.machine import describe_device, package_versions, read_commit, substrate
from labkit.record.measured import NOTHING_MEASURED, PRESERVING, Measured, read_measured
from labkit.record.model import RECORD_NAME, RECORD_VERSION, REPLAY_FOLDER, Change, RunRecord
from labkit.record.reading import check_artefacts, folder_of, read_record, record_from_json
from labkit.record.replay import write_replay
from labkit.record.schema import load_record_schema, make_record_schema
from labkit.record.writing import end_record, observe, seal_record, start_record, with_stages

__all__ = [
    "ANOTHER_ARTEFACT",
    "NOTHING_MEASURED",
    "PRESERVING",
    "RECORD_NAME",
    "RECORD_VERSION",
    "REPLAY_FOLDER",
    "SAME_ARTEFACT",
    "STAGES",
    "Change",
    "Difference",
    "Measured",
    "RecordDiff",
    "RunRecord",
    "Stated",
    "check_artefacts",
    "describe_device",
    "diff_records",
    "end_record",
    "fields_of_layers",
    "folder_of",
    "identify",
    "load_record_schema",
    "make_record_schema",
    "observe",
    "package_versions",
    "read_commit",
    "read_measured",
    "read_record",
    "record_from_json",
    "seal_record",
    "start_record",
    "substrate",
    "with_stages",
    "write_replay",
]
