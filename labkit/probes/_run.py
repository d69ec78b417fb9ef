"""Run probes, each on its own: one that breaks says so and the next one runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from labkit.errors import LabError
from labkit.probes._capture import clean_text, record_messages
from labkit.probes._registry import (
    Probe,
    ProbeContext,
    find_probe,
    list_probes,
    source_outcome,
)
from labkit.probes._result import Evidence, ProbeResult, judge, not_askable
from labkit.probes.libraries import torch_library, transformers_library

Progress = Callable[[ProbeResult], None]


def run_probe(probe_id: str, context: ProbeContext | None = None) -> ProbeResult:
    """Ask one thing of the stack and return its row.

    Raises:
        ProbeError: If there is no such probe.
        LabError: If the context's model cannot be loaded.
    """
    chosen = find_probe(probe_id)
    return judge(
        _gather(chosen, context or ProbeContext()),
        probe=chosen.id,
        number=chosen.number,
        asked=chosen.asks,
        source_outcome=source_outcome(chosen.id),
    )


def run_probes(
    ids: Iterable[str] | None = None,
    context: ProbeContext | None = None,
    progress: Progress | None = None,
) -> list[ProbeResult]:
    """Run the named probes, or every one; names are checked before the first runs.

    Args:
        ids: Names or numbers; None means all, those beyond the thirteen included.
        context: The model, tokenizer and device to ask with.
        progress: Called with each row as it is ready.

    Raises:
        ProbeError: If a name is unknown.
    """
    chosen = list_probes() if ids is None else [find_probe(probe_id) for probe_id in ids]
    shared = context or ProbeContext()
    rows = []
    for each in chosen:
        rows.append(run_probe(each.id, shared))
        if progress is not None:
            progress(rows[-1])
    return rows


def _gather(chosen: Probe, context: ProbeContext) -> Evidence:
    """Run a probe's function; a fault in its own measuring code is not the stack's refusal."""
    with record_messages():  # what libraries say on being imported answers no request
        torch_library()
        transformers_library()
    try:
        return chosen.function(context)
    except LabError:  # a model that cannot be loaded is the caller's to mend, not evidence
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return not_askable(
            f"the probe's own measuring code failed: {type(error).__name__}: "
            f"{clean_text(str(error))}",
            failed_in=f"{Path(place.filename).name}:{place.name}",
        )
