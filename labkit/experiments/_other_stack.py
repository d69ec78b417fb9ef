"""Ask llama.cpp the probes' questions, and those that only it can be asked."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from labkit.errors import ReleaseError
from labkit.experiments._release_matrix import MATRIX_VERSION
from labkit.files import data_file, digest_files, find_root
from labkit.probes import REGISTRY, ProbeContext
from labkit.probes import llamacpp as questions
from labkit.record import describe_device

LIBRARY = "llama-cpp-python"
_PACKAGES = (LIBRARY, "gguf", "numpy")


def ask_llamacpp(
    *, template: str, template_of: str, told: Callable[[int, int, str], None]
) -> dict[str, Any]:
    """Return the evidence of the installed llama.cpp.

    Args:
        template: The chat template of a real model.
        template_of: Whose it is.
        told: Called after each question with its place, the number of all and its id.

    Raises:
        ReleaseError: If llama-cpp-python is not installed.
    """
    release = _installed()
    started_s = time.perf_counter()
    asked_utc = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    context = ProbeContext(load_tokenizer=lambda: _Templated(template), model_name=template_of)
    asked = questions.list_questions()
    rows = []
    for place, each in enumerate(asked, start=1):
        rows.append(questions.ask_question(each.id, context).to_json())
        told(place, len(asked), each.id)
    return {
        "schema_version": MATRIX_VERSION,
        "library": LIBRARY,
        "release": release,
        "asked_utc": asked_utc,
        "elapsed_s": round(time.perf_counter() - started_s, 1),
        "probes_digest": questions_digest(),
        "template_of": template_of,
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
        "device": describe_device(),
        "rows": [row for row in rows if row["probe"] in REGISTRY],
        "own": [row for row in rows if row["probe"] not in REGISTRY],
    }


class _Templated:
    """What these questions read of a tokenizer: its template."""

    def __init__(self, template: str) -> None:
        self.chat_template = template


def questions_digest() -> str:
    """Return one SHA-256 over the questions' code and data, which an answer depends on."""
    code = Path(questions.__file__).parent
    files = [*code.glob("*.py"), *data_file("probes").glob("*.json")]
    return digest_files(files, root=find_root())


def _installed() -> str:
    try:
        return metadata.version(LIBRARY)
    except metadata.PackageNotFoundError as error:
        raise ReleaseError(
            f"Asking llama.cpp needs {LIBRARY}; it is not installed. "
            f"Install it with `pip install {LIBRARY}`, which compiles it with a C++ compiler."
        ) from error
