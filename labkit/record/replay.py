"""The replay bundle: what a run was fed and what came out, beside its record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from labkit.errors import ResultsError
from labkit.files import dump_json, first_not_finite, write_atomically
from labkit.record.model import REPLAY_FOLDER

FILES = ("prompts.jsonl", "outputs.jsonl", "traces.jsonl", "environment.json")

Lines = Iterable[Mapping[str, object]]


def write_replay(folder: Path, *, prompts: Lines, outputs: Lines, traces: Lines) -> Path:
    """Write the bundle into a run's folder; ending the run adds its files to the record.

    Args:
        folder: The run's folder.
        prompts: A line a prompt: its name, its text and its token ids.
        outputs: A line a prompt: the tokens that came out, and their text.
        traces: A line a prompt: what was in force and how the run went, step by step.

    Raises:
        ResultsError: If a number is not finite.
    """
    target = folder / REPLAY_FOLDER
    for name, lines in (("prompts", prompts), ("outputs", outputs), ("traces", traces)):
        write_atomically(target / f"{name}.jsonl", _json_lines(lines, what=f"{name}.jsonl"))
    environment = {"packages": dict(sorted(_installed()))}
    write_atomically(target / FILES[-1], dump_json(environment, what=FILES[-1]))
    return target


def _json_lines(lines: Lines, *, what: str) -> str:
    texts = []
    for number, line in enumerate(lines, start=1):
        if place := first_not_finite(line):
            raise ResultsError(
                f"Every number in {what} must be finite; got {place} in line {number}."
            )
        texts.append(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
    return "".join(texts)


def _installed() -> Iterable[tuple[str, str]]:
    """Yield every installed distribution, not only those that the record names."""
    from importlib import metadata  # slow to load, and no reader of records needs it

    return ((item.metadata["Name"].lower(), item.version) for item in metadata.distributions())
