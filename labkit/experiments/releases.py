"""The fallback probes against several releases of transformers, each in a process of its own."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from labkit import models
from labkit.errors import ReleaseError
from labkit.experiments._other_stack import ask_llamacpp, questions_digest
from labkit.experiments._release_asking import ask_release
from labkit.experiments._release_environment import (
    ReleaseEnvironment,
    check_release,
    installed_release,
    make_environment,
    release_order,
)
from labkit.experiments._release_matrix import (
    MATRIX_NAME,
    MATRIX_VERSION,
    build_matrix,
    check_matrix,
    draw_matrix,
    evidence_file,
    read_all_evidence,
    read_matrix,
    read_other_evidence,
    write_evidence,
)
from labkit.files import data_file, digest_files, find_root
from labkit.probes import find_probe, list_probes
from labkit.progress import Progress, tell
from labkit.record import describe_device

__all__ = [
    "RELEASES",
    "build_matrix",
    "check_matrix",
    "load_matrix",
    "make_environment",
    "probes_digest",
    "questions_digest",
    "read_other_evidence",
    "run",
    "run_llamacpp",
]

# Beside the release in use: the source's (5.17.0), the first and a later one of its line, the
# last lines before it, and the last release that made up a chat template where there was none.
RELEASES = ("4.40.2", "4.43.4", "4.46.3", "4.51.3", "4.57.1", "5.0.0", "5.10.4", "5.17.0")

Make = Callable[[str], ReleaseEnvironment]


def run(
    run_dir: str | Path | None = None,
    *,
    releases: Sequence[str] | None = None,
    probes: Sequence[str] | None = None,
    again: bool = False,
    device: str = "cpu",
    make: Make = make_environment,
    progress: Progress = tell,
) -> dict[str, Any]:
    """Ask every release and return the matrix; each release is kept as soon as it has answered.

    What was asked before with the same probes, stack and device is not asked again.

    Args:
        run_dir: Folder of matrix.json and its evidence; data/fallbacks by default.
        releases: Which ones; `RELEASES` and the one in use by default.
        probes: Ids; every one by default. With some of them only, nothing is kept.
        again: Ask also what was asked before.
        device: Where the probes run, as torch spells it.
        make: Returns a release's environment.
        progress: Called after each probe.

    Raises:
        ReleaseError: If a release cannot be had; those before it are kept.
        ProbeError: If a probe is unknown; none was asked.
    """
    wanted = _checked_releases(releases or [*RELEASES, installed_release()])
    chosen = [find_probe(name).id for name in probes] if probes else [p.id for p in list_probes()]
    folder = _folder(run_dir)
    request = {"device": device, "template_of": models.resolve().name}
    answers = []
    for place, release in enumerate(wanted):
        kept = None if again or probes else _kept(folder, release, request=request)
        if kept is None:
            kept = _ask(
                release,
                chosen,
                request=request,
                make=make,
                told=_teller(progress, before=place * len(chosen), total=len(wanted) * len(chosen)),
            )
            if not probes:
                write_evidence(folder, kept)
                draw_matrix(folder, probes_digest=probes_digest())
        answers.append(kept)
        progress((place + 1) * len(chosen), len(wanted) * len(chosen), release)
    return build_matrix(answers) if probes else draw_matrix(folder, probes_digest=probes_digest())


def run_llamacpp(run_dir: str | Path | None = None, *, progress: Progress = tell) -> dict[str, Any]:
    """Ask the installed llama.cpp, keep its answers beside the releases', and return the matrix.

    Args:
        run_dir: Folder of matrix.json and its evidence; data/fallbacks by default.
        progress: Called after each question.

    Raises:
        ReleaseError: If llama-cpp-python is not installed, or if no release was asked by today's
            probes, so that there is no matrix to stand in; the answers are kept.
    """
    folder = _folder(run_dir)
    evidence = ask_llamacpp(
        template=_own_template(), template_of=models.resolve().name, told=progress
    )
    write_evidence(folder, evidence)
    return draw_matrix(folder, probes_digest=probes_digest())


def load_matrix(folder: str | Path | None = None) -> dict[str, Any]:
    """Read the published matrix, or that of a folder, and check it.

    Raises:
        ResultsError: If there is none, or it is not whole.
    """
    return read_matrix(_folder(folder) / MATRIX_NAME)


def stale_releases(folder: str | Path | None = None) -> list[str]:
    """Return the releases whose evidence was asked by other probes than the present ones."""
    kept = read_all_evidence(_folder(folder))
    stale = [each["release"] for each in kept if each["probes_digest"] != probes_digest()]
    return sorted(stale, key=release_order)


def probes_digest() -> str:
    """Return one SHA-256 over the probes' code and data, which an answer depends on."""
    root = find_root()
    code = Path(__file__).resolve().parent.parent / "probes"
    if not code.is_relative_to(root):
        raise ReleaseError(
            "The probes' code must lie in the lab's clone; got a package installed elsewhere. "
            "Install the clone with `pip install --editable .`."
        )
    return digest_files([*code.glob("*.py"), *data_file("probes").glob("*.json")], root=root)


def _folder(folder: str | Path | None) -> Path:
    return find_root() / (folder or data_file("fallbacks"))


def _checked_releases(releases: Sequence[str]) -> list[str]:
    return sorted({check_release(release) for release in releases}, key=release_order)


def _own_template() -> str:
    """Return the embedded model's chat template; its text is all that these probes need of it."""
    return (models.fetch() / "chat_template.jinja").read_text(encoding="utf-8")


def _teller(progress: Progress, *, before: int, total: int) -> Callable[[str], None]:
    done = 0

    def told(probe: str) -> None:
        nonlocal done
        done += 1
        progress(before + done, total, probe)

    return told


def _kept(folder: Path, release: str, *, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a release's evidence where it was asked the same on the same stack and device."""
    if not evidence_file(folder, release).exists():
        return None
    found = next(each for each in read_all_evidence(folder) if each["release"] == release)
    now = {
        "probes_digest": probes_digest(),
        "device_asked": request["device"],
        "template_of": request["template_of"],
        "python": platform.python_version(),
    }
    same_stack = found["packages"]["torch"] == metadata.version("torch")
    same_device = found["device"]["processor"] == describe_device()["processor"]
    same = same_stack and same_device and all(found[key] == value for key, value in now.items())
    return found if same else None


def _ask(
    release: str,
    probes: Sequence[str],
    *,
    request: Mapping[str, Any],
    make: Make,
    told: Callable[[str], None],
) -> dict[str, Any]:
    """Ask one release and return its evidence."""
    environment = make(release)
    started_s = time.perf_counter()
    asked_utc = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    given = {**request, "chat_template": _own_template()}
    asked = ask_release(environment, probes, request=given, told=told)
    return {
        "schema_version": MATRIX_VERSION,
        "release": release,
        "asked_utc": asked_utc,
        "elapsed_s": round(time.perf_counter() - started_s, 1),
        "probes_digest": probes_digest(),
        "device_asked": request["device"],
        "template_of": request["template_of"],
        **asked.stack,
        "rows": [asked.row(probe) for probe in probes],
    }
