"""Run the chapter: every notebook that is not finished, into one run folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from labkit import record
from labkit.chapter.executing import Parameters, check_parameters, execute_into_place
from labkit.chapter.resuming import Plan
from labkit.errors import ResultsError, RunError
from labkit.files import find_root, shown
from labkit.profiles import Profile, load_profile, profile_names, write_profile
from labkit.progress import Progress, listening
from labkit.results import OWNER_VARIABLE, RunFolder

Say = Callable[[str], None]
Bar = Callable[[str], AbstractContextManager[Progress]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterRun:
    """What `run_chapter` did.

    Attributes:
        path: The run's folder.
        executed: Notebooks that ran now.
        reused: Notebooks whose inputs had not changed since they ran.
        elapsed_s: Seconds this call took.
    """

    path: Path
    executed: tuple[str, ...]
    reused: tuple[str, ...]
    elapsed_s: float


def notebook_paths(root: Path | None = None) -> list[Path]:
    """Return the chapter's notebooks in their order.

    Raises:
        RunError: If there is none.
    """
    folder = (root or find_root()) / "notebooks"
    found = sorted(folder.glob("[0-9][0-9]_*.ipynb"))
    if not found:
        raise RunError(
            f"The chapter must have notebooks named NN_topic.ipynb; got none in "
            f"{shown(folder)}. Restore them with `git checkout`."
        )
    return found


def run_chapter(
    profile: Profile,
    *,
    run: str | Path | None = None,
    notebooks: list[Path] | None = None,
    say: Say = print,
    bar: Bar | None = None,
) -> ChapterRun:
    """Execute the notebooks that are not finished, into one run folder.

    Args:
        profile: Sizes, model and device. One of the lab's own is handed to each notebook by its
            name, any other by a file that is written into the run's folder.
        run: The run's folder; `results/<profile>` by default.
        notebooks: The notebooks; the chapter's own by default.
        say: Receives one line a step.
        bar: Opens a progress bar of a name, for what the notebooks' kernels tell.

    Raises:
        ProfileError: If a notebook does not take the parameters; no kernel was started.
        RunError: If another process holds the folder, or a notebook fails.
    """
    started_s = time.monotonic()
    paths = notebooks or notebook_paths()
    run_dir = Path(run) if run else Path("results") / profile.name
    with RunFolder(run_dir) as folder, _owning(folder):
        own = None if _is_the_labs(profile) else folder.path / f"{profile.name}.yaml"
        parameters = {
            "profile": shown(own) if own else profile.name,
            "run_dir": shown(folder.path),
        }
        for path in paths:
            check_parameters(path, parameters)
        if own:
            write_profile(profile, own)
        plan = Plan(folder=folder, parameters=parameters, profile=profile, paths=paths)
        todo = [path for path in paths if not plan.is_done(path)]
        reused = tuple(path.stem for path in paths if path not in todo)
        for name in reused:
            say(f"{name}: unchanged since it ran, kept")
        if todo or not _is_finished(folder):
            # Their names without their place, which may lie outside the clone.
            passed = {"profile": own.name if own else profile.name, "run": folder.path.name}
            with _recorded(folder, profile=profile, parameters=passed):
                for path in todo:
                    _execute_one(path, plan=plan, say=say, bar=bar or _no_bar)
    return ChapterRun(
        path=folder.path,
        executed=tuple(path.stem for path in todo),
        reused=reused,
        elapsed_s=time.monotonic() - started_s,
    )


def store_outputs(*, notebooks: list[Path] | None = None, say: Say = print) -> None:
    """Execute the chapter's notebooks in place, with their own defaults.

    What is stored is what the notebooks' checks compare with.

    Raises:
        RunError: If a notebook fails; it is left as it was.
    """
    quick = load_profile("quick")  # what the notebooks' own defaults name
    with (
        RunFolder("") as scratch,
        _owning(scratch),
        _recorded(scratch, profile=quick, parameters={}),
    ):
        for path in notebooks or notebook_paths():
            say(f"{path.stem}: running")
            execute_into_place(path, path, parameters={}, scratch=scratch.path)


def _is_the_labs(profile: Profile) -> bool:
    """Return whether a profile is, in every field, the lab's own of its name."""
    return profile.name in profile_names() and load_profile(profile.name) == profile


@contextmanager
def _no_bar(name: str) -> Iterator[Progress]:
    """Show no progress."""
    yield lambda done, total, label: None


def _execute_one(path: Path, *, plan: Plan, say: Say, bar: Bar) -> None:
    """Execute one notebook, put its copy in place and note that it is done."""
    say(f"{path.stem}: running")
    started_s = time.monotonic()
    target = plan.target(path)
    with bar(path.stem) as show, listening(show):
        execute_into_place(path, target, parameters=plan.parameters, scratch=plan.folder.path)
    plan.mark_done(path)
    say(f"{path.stem}: done in {time.monotonic() - started_s:.1f} s")


@contextmanager
def _owning(folder: RunFolder) -> Iterator[None]:
    """Let the notebooks' kernels write into the folder that this process holds."""
    before = os.environ.get(OWNER_VARIABLE)
    os.environ[OWNER_VARIABLE] = str(os.getpid())
    try:
        yield
    finally:
        if before is None:
            del os.environ[OWNER_VARIABLE]
        else:
            os.environ[OWNER_VARIABLE] = before


def _is_finished(folder: RunFolder) -> bool:
    """Return whether the folder's last run ended well."""
    return (previous := _previous_record(folder)) is not None and previous.status == "finished"


def _previous_record(folder: RunFolder) -> record.RunRecord | None:
    """Return the record of the folder's last run, if one can be read."""
    try:
        return record.read_record(folder.path)
    except ResultsError:
        return None


@contextmanager
def _recorded(folder: RunFolder, *, profile: Profile, parameters: Parameters) -> Iterator[None]:
    """Write the record before the notebooks run, and how they ended."""
    previous = _previous_record(folder)
    started = folder.start(
        command="chapter", profile=profile.to_json(), parameters_passed=parameters
    )
    # Notebooks that are kept do not report again what they found out about the same model.
    if previous and _is_of_equal_profile(previous, started):
        found = ((name, stated) for name, stated in previous.all_stated() if stated.observed)
        new = {name: stated.observed for name, stated in found if not started.in_force(name)}
        resolved = {name: previous.stated(name).resolved for name in ("identity.model",)}
        folder.observe(observed=new, resolved=resolved)
    try:
        yield
    except BaseException as error:
        folder.finish(failure=error)
        raise
    folder.finish()


def _is_of_equal_profile(left: record.RunRecord, right: record.RunRecord) -> bool:
    return left.in_force("evaluation.profile") == right.in_force("evaluation.profile")
