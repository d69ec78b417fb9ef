"""What every experiment does around its measuring: time it, hold its folder, store it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labkit.profiles import Profile, load_profile
from labkit.results import RunFolder, recorded_run

Measure = Callable[[], dict[str, Any]]


def as_profile(profile: str | Profile) -> Profile:
    """Return a profile, read from its file where only its name is given."""
    return profile if isinstance(profile, Profile) else load_profile(profile)


def run_section(
    name: str,
    measure: Measure,
    *,
    profile: Profile,
    run_dir: str | Path | None,
    parameters_passed: Mapping[str, object] | None = None,
    learned: Callable[[], Mapping[str, object]] = dict,
) -> dict[str, Any]:
    """Measure a section and, where a run folder is named, store it there.

    Args:
        name: The section's key in results.json.
        measure: Returns the section without its time.
        profile: The profile in force.
        run_dir: The run's folder; "" is the scratch run, None stores nothing.
        parameters_passed: What was asked for apart from the profile.
        learned: Returns, after measuring, what was seen, by the fields of the run's record.

    Returns:
        The section, with `elapsed_s`.
    """
    if run_dir is None:
        return _timed(measure)
    with recorded_run(
        run_dir, command=name, profile=profile.to_json(), parameters_passed=parameters_passed
    ) as folder:
        section = _timed(measure)
        _store(folder, name=name, section=section, learned=learned())
    return section


def _timed(measure: Measure) -> dict[str, Any]:
    started_s = time.perf_counter()
    section = measure()
    return {**section, "elapsed_s": round(time.perf_counter() - started_s, 3)}


def _store(
    folder: RunFolder, *, name: str, section: dict[str, Any], learned: Mapping[str, object]
) -> None:
    folder.write_section(name, section)
    if learned:
        folder.observe(observed=dict(learned))
