"""The process that answers for one release: it runs probes and writes each row as it is ready.

`python -m labkit.experiments._release_answer REQUEST ANSWERS` reads a JSON request and appends
JSON lines: first the stack, then what is being asked, then its row. A process that dies leaves
every row before, and the name of the probe it died of.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from labkit.probes import ProbeContext, attempt, run_probe
from labkit.record import describe_device

PACKAGES = ("transformers", "tokenizers", "huggingface-hub", "torch", "numpy", "mistral-common")

Write = Callable[[Mapping[str, Any]], None]


def main(request_file: str, answers_file: str) -> None:
    """Answer one request."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    with Path(answers_file).open("a", encoding="utf-8") as answers:

        def write(line: Mapping[str, Any]) -> None:
            answers.write(json.dumps(line, ensure_ascii=False) + "\n")
            answers.flush()

        answer(request, write)


def answer(request: Mapping[str, Any], write: Write) -> None:
    """Write the stack, then a row for each probe; a stack that cannot be loaded says why."""
    loaded = attempt(_import_stack)
    write({"stack": describe_stack(), "cannot_load": loaded.said if loaded.raised else None})
    if loaded.raised:
        return
    context = _context(request)
    for probe in request["probes"]:
        write({"asking": probe})
        write({"row": run_probe(probe, context).to_json()})


def _import_stack() -> None:
    """Import what every probe imports; old releases load their models' modules only when asked."""
    import torch  # noqa: F401  # imported for what it may raise
    import transformers

    _ = transformers.GenerationConfig


def describe_stack() -> dict[str, Any]:
    """Return the versions and the device that the answers hold for."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "packages": versions,
        "device": describe_device(),
    }


def _context(request: Mapping[str, Any]) -> ProbeContext:
    """Return stand-ins, and the model's own chat template on a tokenizer of ours.

    A tokenizer file written by one release is not always read by another; its template is text.
    """
    template = request.get("chat_template")
    if not template:
        return ProbeContext(device=request["device"])

    def load_tokenizer() -> Any:
        from labkit.probes.stand_ins import tiny_tokenizer

        return tiny_tokenizer(chat_template=template)

    return ProbeContext(
        load_tokenizer=load_tokenizer,
        model_name=request["template_of"],
        device=request["device"],
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
