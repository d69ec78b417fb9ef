"""The fingerprint table: what each checkpoint's config.json states, read without weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from labkit.experiments._section import as_profile, run_section
from labkit.files import data_file, shown
from labkit.profiles import Profile
from labkit.progress import Progress, tell
from labkit.spec import ModelSpec, fingerprint, iter_config_files, read_config_file

SECTION = "fingerprints"


def run(
    profile: str | Profile = "quick",
    run_dir: str | Path | None = None,
    *,
    paths: Sequence[str | Path] = (),
    progress: Progress = tell,
) -> dict[str, Any]:
    """Fingerprint configs and return the section.

    Args:
        profile: The profile in force; it is only recorded.
        run_dir: The run's folder; "" is the scratch run, None stores nothing.
        paths: Config files and folders; the lab's ten by default.
        progress: Called after each config.

    Raises:
        ConfigError: If a file is broken; the text names it.
    """
    files = list(iter_config_files(paths or [data_file("configs")]))
    return run_section(
        SECTION,
        lambda: _measure(files, progress=progress),
        profile=as_profile(profile),
        run_dir=run_dir,
        parameters_passed={"paths": [str(path) for path in paths]} if paths else None,
    )


def read_specs(paths: Iterable[str | Path]) -> list[ModelSpec]:
    """Return the spec of every config that files and folders stand for."""
    return [_read(file) for file in iter_config_files(paths)]


def _read(file: Path) -> ModelSpec:
    # A checkpoint's folder names its config; in the lab's own folder the file does.
    name = file.parent.name if file.name == "config.json" else file.stem
    return fingerprint(read_config_file(file), name or None)


def _measure(files: Sequence[Path], *, progress: Progress) -> dict[str, Any]:
    rows = []
    for done, file in enumerate(files, start=1):
        spec = _read(file)
        rows.append({**spec.summary_row(), "source": shown(file)})
        progress(done, len(files), spec.name)
    return {"rows": rows, "summary": _summarise(rows)}


def _summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Count what the table's text says about it."""
    return {
        "configs": len(rows),
        "attention_kinds": dict(Counter(str(row["attention_kind"]) for row in rows)),
        "with_window": sum(bool(row["window_enabled"]) for row in rows),
        "window_switched_off": sum(row["window_scope_from_file"] == "off" for row in rows),
        "rope_extensions": sum(row["rope_is_extension"] is True for row in rows),
        "largest_kv_bytes_per_token": _extreme(rows, pick=max),
        "smallest_kv_bytes_per_token": _extreme(rows, pick=min),
    }


def _extreme(rows: Sequence[dict[str, Any]], *, pick: Any) -> int | None:
    known = [row["kv_bytes_per_token"] for row in rows if row["kv_bytes_per_token"] is not None]
    return pick(known) if known else None
