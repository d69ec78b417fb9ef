"""The fallback probes: what the stack does when it cannot do what it is asked."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

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
    from labkit.probes import find_probe, list_probes, run_probes, summarise_probes

    asked = list_probes() if chosen is None else [find_probe(name) for name in chosen]
    done = 0

    def report(result: Any) -> None:
        nonlocal done
        done += 1
        progress(done, len(asked), result.probe)

    results = run_probes([item.id for item in asked], _context(profile, found=found), report)
    return {
        "rows": [item.to_json() for item in results if item.number is not None],
        "beyond": [item.to_json() for item in results if item.number is None],
        "summary": summarise_probes(results),
    }


def _context(profile: Profile, *, found: dict[str, object]) -> Any:
    """Return what the probes ask with; the first that needs the model loads it.

    Which model it was then stands in `found`, for the run's record.
    """
    from labkit import models
    from labkit.backends.observing import observe_model
    from labkit.probes import ProbeContext

    @cache
    def load() -> models.LoadedModel:
        loaded = models.load(
            profile.model,
            dtype=profile.dtype,
            device=profile.device,
            revision=profile.revision,
        )
        found.update(observe_model(loaded))
        return loaded

    return ProbeContext(
        load_model=lambda: load().model,
        load_tokenizer=lambda: load().tokenizer,
        model_name=models.resolve(profile.model, revision=profile.revision).name,
        device=profile.device,
    )
