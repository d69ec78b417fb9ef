"""Execute one notebook through papermill, which is loaded only here."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labkit.chapter.notebook_files import (
    describe_error,
    normalise,
    read_notebook,
    tagged_cells,
    write_notebook,
)
from labkit.errors import ProfileError, RunError
from labkit.files import shown

_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
}

Parameters = Mapping[str, object]


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


def execute_into_place(path: Path, target: Path, *, parameters: Parameters, scratch: Path) -> None:
    """Execute a notebook and, if it ran to its end, put the copy in its place.

    Args:
        path: The notebook.
        target: Where the executed copy goes.
        parameters: What is passed to it.
        scratch: A folder for the copy while it runs.

    Raises:
        RunError: If a cell fails; the partly run copy is kept beside the last good one.
    """
    failed = scratch / "executed" / path.with_suffix(".failed.ipynb").name
    with tempfile.TemporaryDirectory(prefix=".part-", dir=scratch) as folder:
        output = Path(folder) / path.name
        try:
            papermill_execute(path, output, parameters=parameters)
        except Exception as error:
            raise _keep_failed(path, output=output, failed=failed, error=error) from error
        write_notebook(target, normalise(read_notebook(output)))
    failed.unlink(missing_ok=True)


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
        f"{path.stem} failed in {cause.rstrip('.')}.{kept} Mend the cause and call the same "
        "command again: what is finished is kept."
    )


def papermill_execute(source: Path, output: Path, *, parameters: Parameters) -> None:
    """Run a notebook in a kernel of its own, writing its copy as it goes."""
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
            progress_bar=False,
            # The kernel logs on standard error that its channel is not encrypted, and a traceback
            # of its own when it is interrupted; a failed cell is reported by the notebook.
            extra_arguments=["--log-level=50"],
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
