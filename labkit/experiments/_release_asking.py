"""Ask a release in a process of its own, and read its answers back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit import errors
from labkit.errors import LabError, ReleaseError
from labkit.experiments._release_environment import LIBRARY, ReleaseEnvironment
from labkit.files import find_root
from labkit.probes import clean_text, find_probe, judge, not_askable, source_outcome

TIMEOUT_S = 900.0
POLL_S = 0.2
_ANSWERING = "labkit.experiments._release_answer"
# What would put other packages before the release's, or our clone out of the path.
_PATH_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH")

Told = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What one process wrote.

    Attributes:
        stack: Versions and device; None where it wrote nothing.
        cannot_load: Why the stack could not be imported.
        rows: A row for each probe that was answered, by its id.
        asking: The probe it was asking last, where no row followed.
        observed: Facts of the model that it loaded, for a run's record.
        fault: What the caller must mend before anything can be asked: the error's class and text.
        ended: How the process ended, in words, where it did not end by itself and well.
    """

    stack: Mapping[str, Any] | None = None
    cannot_load: str | None = None
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    asking: str | None = None
    observed: Mapping[str, Any] = field(default_factory=dict)
    fault: Mapping[str, str] | None = None
    ended: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Every probe's answer of one release: its row, or why there is none.

    Attributes:
        stack: Versions and device.
        rows: The rows, by the probe's id.
        unanswered: Why a probe has no row, by its id.
        observed: Facts of the model that was loaded, for a run's record.
    """

    stack: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]]
    unanswered: Mapping[str, str]
    observed: Mapping[str, Any] = field(default_factory=dict)

    def row(self, probe_id: str) -> dict[str, Any]:
        """Return a probe's row; one without an answer could not be asked, and says why."""
        if probe_id in self.rows:
            return dict(self.rows[probe_id])
        probe = find_probe(probe_id)
        return judge(
            not_askable(self.unanswered[probe_id]),
            probe=probe.id,
            number=probe.number,
            asked=probe.asks,
            source_outcome=source_outcome(probe.id),
        ).to_json()


def ask_release(
    environment: ReleaseEnvironment,
    probes: Sequence[str],
    *,
    request: Mapping[str, Any],
    told: Told = lambda _: None,
    timeout_s: float = TIMEOUT_S,
) -> Asked:
    """Ask probes of a release; one that ends the process is named, and the next ones go on.

    Args:
        environment: Where the release lies.
        probes: Ids, in order.
        request: What else the process is given: a device, and either a chat template and whose
            it is, or a model to load.
        told: Called with each probe's id as its answer is there, or that there is none.
        timeout_s: Longest time of one answer.

    Raises:
        ReleaseError: If the process says nothing at all, or runs another release, or the lab's
            own cannot be imported.
        LabError: What a probe raised of the lab's own: a model that cannot be loaded.
    """
    rows: dict[str, Mapping[str, Any]] = {}
    unanswered: dict[str, str] = {}
    observed: dict[str, Any] = {}
    while True:
        left = [probe for probe in probes if probe not in rows and probe not in unanswered]
        answers = _ask_once(
            environment, {**request, "probes": left}, told=told, timeout_s=timeout_s
        )
        if answers.fault is not None:
            raise getattr(errors, answers.fault["kind"], LabError)(answers.fault["text"])
        stack = _checked_stack(answers, environment, left=left)
        rows |= answers.rows
        observed |= answers.observed
        without = _without_answer(answers, left=left)
        for probe in without:
            told(probe)
        unanswered |= without
        if answers.asking is None:
            return Asked(stack=stack, rows=rows, unanswered=unanswered, observed=observed)


def _without_answer(answers: Answers, *, left: Sequence[str]) -> dict[str, str]:
    """Return why probes have no row: none could be asked, or this one ended the process."""
    if answers.cannot_load:
        return dict.fromkeys(left, f"this release cannot be imported: {answers.cannot_load}")
    if answers.asking:
        return {answers.asking: f"the process {answers.ended or 'ended'} while it was asked"}
    return {}


def _checked_stack(
    answers: Answers, environment: ReleaseEnvironment, *, left: Sequence[str]
) -> Mapping[str, Any]:
    """Refuse a process that ended before it asked, or that answers for another release."""
    explained = answers.cannot_load or answers.asking or set(left) <= set(answers.rows)
    if answers.stack is None or not explained:
        raise ReleaseError(
            f"A release's process must answer; got none from {LIBRARY} {environment.release}: "
            f"it {answers.ended or 'ended'}. {environment.remedy}"
        )
    if answers.cannot_load and environment.folder is None:
        raise ReleaseError(
            f"The installed {LIBRARY} must import before it can be asked; got "
            f"{answers.cannot_load}. {environment.remedy}"
        )
    found = answers.stack["packages"].get(LIBRARY)
    if found != environment.release:
        raise ReleaseError(
            f"An environment must hold its own release; got {LIBRARY} {found} in that of "
            f"{environment.release}. {environment.remedy}"
        )
    return answers.stack


def _ask_once(
    environment: ReleaseEnvironment,
    request: Mapping[str, Any],
    *,
    told: Told,
    timeout_s: float,
) -> Answers:
    with tempfile.TemporaryDirectory(prefix="labkit-release-") as scratch:
        asking, answering = Path(scratch) / "request.json", Path(scratch) / "answers.jsonl"
        asking.write_text(json.dumps(request), encoding="utf-8")
        answering.touch()
        with (Path(scratch) / "said").open("w+") as said:
            process = subprocess.Popen(
                [str(environment.python), "-m", _ANSWERING, str(asking), str(answering)],
                cwd=find_root(),
                env=_process_variables(
                    own_path=environment.folder is None, offline="model" not in request
                ),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
            ended = _wait(process, answering, told=told, timeout_s=timeout_s)
            said.seek(0)
            return read_answers(
                answering.read_text(encoding="utf-8"), ended=ended, said=said.read()
            )


def _process_variables(*, own_path: bool, offline: bool) -> dict[str, str]:
    dropped = () if own_path else _PATH_VARIABLES
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    # What needs no model is made on the spot; a hub that answers would change only the time.
    return {**kept, "HF_HUB_OFFLINE": "1"} if offline else kept


def _wait(
    process: subprocess.Popen[bytes], answering: Path, *, told: Told, timeout_s: float
) -> str | None:
    """Wait for the process, telling each answer; return how it ended, or None if well.

    The time is that of one answer: it begins anew with whatever the process writes.
    """
    until, seen, written = time.monotonic() + timeout_s, 0, 0
    try:
        while process.poll() is None and time.monotonic() < until:
            time.sleep(POLL_S)
            seen = _tell_new(answering, seen=seen, told=told)
            if (size := answering.stat().st_size) != written:
                until, written = time.monotonic() + timeout_s, size
        late = process.poll() is None
    finally:
        process.kill()
        code = process.wait()
    _tell_new(answering, seen=seen, told=told)
    if late:
        return f"gave no answer within {timeout_s:g} s"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}" if code else None


def _tell_new(answering: Path, *, seen: int, told: Told) -> int:
    rows = list(read_answers(answering.read_text(encoding="utf-8")).rows)
    for probe in rows[seen:]:
        told(probe)
    return len(rows)


def read_answers(text: str, *, ended: str | None = None, said: str = "") -> Answers:
    """Read a process's lines; a last line that was cut off is as if it had not been written."""
    whole = text[: text.rfind("\n") + 1]
    lines = [json.loads(line) for line in whole.splitlines()]
    first: dict[str, Any] = next((line for line in lines if "stack" in line), {})
    rows = {line["row"]["probe"]: line["row"] for line in lines if "row" in line}
    asked = [line["asking"] for line in lines if "asking" in line]
    last_words = [clean_text(line) for line in said.strip().splitlines()[-1:]] if ended else []
    return Answers(
        stack=first.get("stack"),
        cannot_load=first.get("cannot_load"),
        rows=rows,
        asking=next((probe for probe in asked if probe not in rows), None),
        observed=next((line["observed"] for line in lines if "observed" in line), {}),
        fault=next((line["fault"] for line in lines if "fault" in line), None),
        ended=" saying ".join([ended, *last_words]) if ended else None,
    )
