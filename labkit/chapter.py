"""Run the chapter: every notebook with one profile, resumable, through papermill.

This is the only module that executes notebooks. An executed copy replaces the one before it
only when it ran to its end.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import record
from labkit.errors import ProfileError, ResultsError, RunError
from labkit.files import digest_files, digest_of, dump_json, find_root, shown, write_atomically
from labkit.notebook_files import (
    describe_error,
    normalise,
    read_notebook,
    tagged_cells,
    write_notebook,
)
from labkit.profiles import Profile
from labkit.results import OWNER_VARIABLE, SECTIONS, RunFolder

STATE_NAME = "chapter.json"
_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
}

Say = Callable[[str], None]
Parameters = Mapping[str, object]


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
) -> ChapterRun:
    """Execute the notebooks that are not finished, into one run folder.

    Args:
        profile: Sizes, model and device; its name is handed to each notebook.
        run: The run's folder; `results/<profile>` by default.
        notebooks: The notebooks; the chapter's own by default.
        say: Receives one line a step.

    Raises:
        ProfileError: If a notebook does not take the parameters; no kernel was started.
        RunError: If another process holds the folder, or a notebook fails.
    """
    started_s = time.monotonic()
    paths = notebooks or notebook_paths()
    run_dir = Path(run) if run else Path("results") / profile.name
    with RunFolder(run_dir) as folder, _owning(folder):
        parameters = {"profile": profile.name, "run_dir": shown(folder.path)}
        for path in paths:
            check_parameters(path, parameters)
        plan = _Plan(folder=folder, parameters=parameters, profile=profile, paths=paths)
        todo = [path for path in paths if not plan.is_done(path)]
        reused = tuple(path.stem for path in paths if path not in todo)
        for name in reused:
            say(f"{name}: unchanged since it ran, kept")
        if todo or not _is_finished(folder):
            with _recorded(folder, profile=profile, parameters=parameters):
                for path in todo:
                    _execute_one(path, plan=plan, say=say)
    return ChapterRun(
        path=folder.path,
        executed=tuple(path.stem for path in todo),
        reused=reused,
        elapsed_s=time.monotonic() - started_s,
    )


def check_parameters(path: Path, parameters: Parameters) -> None:
    """Refuse parameters that a notebook does not take, before its kernel starts.

    Raises:
        ProfileError: If the notebook has no single parameters cell, or a parameter is unknown
            there or of another type.
    """
    if (count := len(tagged_cells(read_notebook(path), "parameters"))) != 1:
        raise ProfileError(
            f"A notebook must have one code cell tagged `parameters`; got {count} in "
            f"{shown(path)}. Without it the notebook's defaults would win in silence."
        )
    declared = _declared_types(path)
    for name, value in parameters.items():
        if name not in declared:
            raise ProfileError(
                f"{shown(path)} takes the parameters {', '.join(sorted(declared))}; "
                f"got {name}={value!r}. Add it to the cell tagged `parameters`, typed."
            )
        _check_type(path, name=name, value=value, type_name=declared[name])


def _declared_types(path: Path) -> dict[str, str]:
    """Return the types that a notebook's parameters cell declares, as papermill reads them."""
    try:
        found = _papermill().inspect_notebook(str(path))
    except ValueError as error:
        raise ProfileError(
            f"A notebook must name its kernel and language; got {shown(path)}: {error} "
            "Save it once from JupyterLab with the Python 3 kernel."
        ) from error
    return {name: str(item["inferred_type_name"]) for name, item in found.items()}


def _check_type(path: Path, *, name: str, value: object, type_name: str) -> None:
    if type_name not in _TYPES:
        raise ProfileError(
            f"Each parameter must declare one of the types {', '.join(_TYPES)}; got "
            f"{name}: {type_name} in {shown(path)}. Write `{name}: str = ...  # what it is`."
        )
    # bool is an int to Python, but `prompts=True` is a slip.
    slip = isinstance(value, bool) and type_name != "bool"
    if slip or not isinstance(value, _TYPES[type_name]):
        raise ProfileError(
            f"{name} must be of type {type_name} in {shown(path)}; "
            f"got {name}={value!r} of type {type(value).__name__}."
        )


class _Plan:
    """Which notebooks are finished, by the digest of everything they were made from."""

    def __init__(
        self, *, folder: RunFolder, parameters: Parameters, profile: Profile, paths: list[Path]
    ) -> None:
        self.folder = folder
        self.parameters = parameters
        self._file = folder.path / STATE_NAME
        common = _common_inputs(profile, parameters)
        self._inputs = {
            path.stem: digest_of([common, digest_files([path], root=path.parent)]) for path in paths
        }
        self._state = self._read_state()
        self._results = folder.read()

    def target(self, path: Path) -> Path:
        return self.folder.executed_path / path.name

    def is_done(self, path: Path) -> bool:
        """Return whether a notebook's copy stands, untouched, and was made from these inputs."""
        section = path.stem.partition("_")[2]
        if section in SECTIONS and self._results[section] is None:
            return False
        return self.target(path).is_file() and self._state.get(path.stem) == self._entry(path)

    def mark_done(self, path: Path) -> None:
        self._state[path.stem] = self._entry(path)
        write_atomically(self._file, dump_json(self._state, what=STATE_NAME))

    def _entry(self, path: Path) -> dict[str, str]:
        target = self.target(path)
        output = digest_files([target], root=target.parent)
        return {"inputs": self._inputs[path.stem], "output": output}

    def _read_state(self) -> dict[str, Any]:
        """Return the state; a broken file means that nothing is known to be finished."""
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stored if isinstance(stored, dict) else {}


def _common_inputs(profile: Profile, parameters: Parameters) -> dict[str, object]:
    """Return what every notebook depends on: sources, data, profile, versions, model."""
    root = find_root()
    package = Path(__file__).resolve().parent
    sources = [path for path in package.rglob("*") if path.suffix in (".py", ".json")]
    data = [path for path in (root / "data").rglob("*") if path.is_file()]
    return {
        "sources": digest_files(sources, root=package),
        "data": digest_files(data, root=root),
        "profile": profile.to_json(),
        "parameters": dict(parameters),
        "packages": record.package_versions(),
        "model": _local_model(profile.model),
    }


def _local_model(model: str) -> list[tuple[str, int, int]]:
    """Return the names, sizes and times of a local model folder's files.

    The embedded model is pinned by digest in the sources, and a hub's by its revision.
    """
    files = [path for path in Path(model).expanduser().glob("*") if path.is_file()]
    stats = ((path.name, path.stat()) for path in sorted(files))
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


def _execute_one(path: Path, *, plan: _Plan, say: Say) -> None:
    """Execute one notebook into a temporary file and put it in place."""
    say(f"{path.stem}: running")
    started_s = time.monotonic()
    target = plan.target(path)
    failed = target.with_suffix(".failed.ipynb")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=plan.folder.path) as scratch:
        output = Path(scratch) / path.name
        try:
            _papermill_execute(path, output, parameters=plan.parameters)
        except Exception as error:
            raise _keep_failed(path, output=output, failed=failed, error=error) from error
        write_notebook(target, normalise(read_notebook(output)))
    failed.unlink(missing_ok=True)
    plan.mark_done(path)
    say(f"{path.stem}: done in {time.monotonic() - started_s:.1f} s")


def _keep_failed(path: Path, *, output: Path, failed: Path, error: Exception) -> RunError:
    """Keep the partly run copy beside the last good one, and say what failed."""
    what, kept = str(error).strip().splitlines()[-1:] or [type(error).__name__], ""
    cause = what[0]
    if output.is_file():
        notebook = read_notebook(output)
        cause = describe_error(notebook)
        write_notebook(failed, normalise(notebook))
        kept = f" The partly run copy is {shown(failed)}."
    return RunError(
        f"{path.stem} failed in {cause}.{kept} Mend the cause and call the same command again: "
        "what is finished is kept."
    )


def _papermill_execute(source: Path, output: Path, *, parameters: Parameters) -> None:
    # papermill logs each unknown parameter and each cell; the first are refused before.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _papermill().execute_notebook(
            str(source),
            str(output),
            parameters=dict(parameters),
            kernel_name="python3",
            cwd=str(source.parent),
            progress_bar=sys.stderr.isatty(),
            # A local kernel warns on standard error that its channel is not encrypted.
            extra_arguments=["--log-level=40"],
        )


def _papermill() -> Any:
    """Load papermill, which takes a second."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import papermill
    except ModuleNotFoundError as error:
        raise RunError(
            "Running notebooks needs the book's packages; papermill is not installed. "
            "Install them with `pip install -r requirements.lock`, or `make setup`."
        ) from error
    return papermill


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
    started = record.start_record(
        folder.path,
        command="chapter",
        profile=profile.to_json(),
        parameters_passed=parameters,
    )
    folder.write_run(started)
    # Notebooks that are kept do not report again what they found out about the same model.
    if previous and previous.profile == started.profile:
        found = ("model", "prompts_digest", "seeds", "device")
        folder.amend_run(**{name: getattr(previous, name) for name in found})
    try:
        yield
    except BaseException as error:
        folder.write_run(record.finish_record(folder.path, failure=error))
        raise
    folder.write_run(record.finish_record(folder.path))
