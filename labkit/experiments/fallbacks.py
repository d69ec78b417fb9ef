"""The fallback probes: what the stack does when it cannot do what it is asked.

They run in a process of their own, so that a probe that ends it ends nothing else. A probe of the
user's own, from a script or a notebook, runs in the user's process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labkit.experiments._release_asking import ask_release
from labkit.experiments._release_environment import own_environment
from labkit.experiments._section import as_profile, run_section
from labkit.profiles import Profile
from labkit.progress import Progress, tell
from labkit.record import substrate

SECTION = "fallbacks"


def run(
    profile: str | Profile = "quick",
    run_dir: str | Path | None = None,
    *,
    probes: list[str] | None = None,
    progress: Progress = tell,
) -> dict[str, Any]:
    """Run the probes and return the section.

    Rows hold the thirteen; probes beyond them stand under `beyond`.

    Args:
        profile: Names the model and the device to ask with.
        run_dir: The run's folder; "" is the scratch run, None stores nothing.
        probes: Names of the probes to run; the profile's by default.
        progress: Called after each probe.

    Raises:
        ProbeError: If a probe is unknown; none was run.
    """
    settings = as_profile(profile)
    chosen = probes or (None if settings.probes == "all" else list(settings.probes))
    found: dict[str, object] = {}
    return run_section(
        SECTION,
        lambda: _measure(settings, chosen=chosen, progress=progress, found=found),
        profile=settings,
        run_dir=run_dir,
        parameters_passed={"probes": probes} if probes else None,
        learned=lambda: substrate() | found,
    )


def _measure(
    profile: Profile, *, chosen: list[str] | None, progress: Progress, found: dict[str, object]
) -> dict[str, Any]:
    from labkit.experiments._release_answer import context_of
    from labkit.probes import ProbeResult, find_probe, list_probes, run_probe, summarise_probes

    ids = [each.id for each in (list_probes() if chosen is None else map(find_probe, chosen))]
    answered = 0

    def told(probe: str) -> None:
        nonlocal answered
        answered += 1
        progress(answered, len(ids), probe)

    request = _request(profile)
    apart = [probe for probe in ids if _is_the_labs(probe)]
    rows: dict[str, ProbeResult] = {}
    if apart:
        asked = ask_release(own_environment(), apart, request=request, told=told)
        found.update(asked.observed)  # which model it was, for the run's record
        rows = {probe: ProbeResult(**asked.row(probe)) for probe in apart}
    context = context_of(request, lambda line: found.update(line["observed"]))
    for probe in ids:
        if probe not in rows:
            rows[probe] = run_probe(probe, context)
            told(probe)
    results = [rows[probe] for probe in ids]
    return {
        "rows": [item.to_json() for item in results if item.number is not None],
        "beyond": [item.to_json() for item in results if item.number is None],
        "summary": summarise_probes(results),
    }


def _is_the_labs(probe: str) -> bool:
    """Say whether another process has the probe: one from a script or a notebook it has not."""
    from labkit.probes import find_probe

    return find_probe(probe).function.__module__.startswith("labkit.probes.")


def _request(profile: Profile) -> dict[str, Any]:
    """Return what the process is given: the profile's model, loaded if a probe needs it."""
    from labkit import models

    # a bad name ends before any work, and the process may start in another folder
    source = models.resolve(profile.model, revision=profile.revision)
    name = str(Path(source.location).resolve()) if source.origin == "folder" else profile.model
    model = {"name": name, "revision": profile.revision, "dtype": profile.dtype}
    return {"device": profile.device, "model": model}
