"""The process that answers for one release: it runs probes and writes each row as it is ready.

`python -m labkit.experiments._release_answer REQUEST ANSWERS` reads a JSON request and appends
JSON lines: first the stack, then what is being asked, then its row. A process that dies leaves
every row before, and the name of the probe it died of. A model that cannot be loaded is a fault
of the request, and ends it.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from labkit.errors import LabError
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
    context = context_of(request, write)
    for probe in request["probes"]:
        write({"asking": probe})
        try:
            write({"row": run_probe(probe, context).to_json()})
        except LabError as fault:
            write({"fault": {"kind": type(fault).__name__, "text": str(fault)}})
            return


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


def context_of(request: Mapping[str, Any], write: Write) -> ProbeContext:
    """Return what probes ask with: a model of the lab's, or a chat template, or stand-ins.

    Args:
        request: As `ask_release` describes it.
        write: Receives `{"observed": …}`, the facts of the model, once one is loaded.
    """
    if "model" in request:
        return _with_model(request["model"], device=request["device"], write=write)
    if request.get("chat_template"):
        return _with_template(request)
    return ProbeContext(device=request["device"])


def _with_model(model: Mapping[str, Any], *, device: str, write: Write) -> ProbeContext:
    """Load the model for the first probe that needs it, and write down which it was."""
    from labkit import models
    from labkit.backends.observing import observe_model

    @cache
    def load() -> models.LoadedModel:
        loaded = models.load(
            model["name"], dtype=model["dtype"], device=device, revision=model["revision"]
        )
        write({"observed": observe_model(loaded)})
        return loaded

    return ProbeContext(
        load_model=lambda: load().model,
        load_tokenizer=lambda: load().tokenizer,
        model_name=models.resolve(model["name"], revision=model["revision"]).name,
        device=device,
    )


def _with_template(request: Mapping[str, Any]) -> ProbeContext:
    """Return stand-ins, and the model's own chat template on a tokenizer of ours.

    A tokenizer file written by one release is not always read by another; its template is text.
    """

    def load_tokenizer() -> Any:
        from labkit.probes.stand_ins import tiny_tokenizer

        return tiny_tokenizer(chat_template=request["chat_template"])

    return ProbeContext(
        load_tokenizer=load_tokenizer,
        model_name=request["template_of"],
        device=request["device"],
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
