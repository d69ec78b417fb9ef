"""Probes 9 and 10 and their kin: a static cache, and what it is silently coupled to."""

from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from labkit.probes._capture import Attempt, attempt
from labkit.probes._registry import ProbeContext, probe
from labkit.probes._result import Evidence, not_askable
from labkit.probes._subjects import (
    NEW_TOKENS,
    Subject,
    cache_of,
    cache_slots,
    generation_subject,
)
from labkit.probes.libraries import transformers_library

ASKED_SLOTS = 64
_ABSENT_COMPILER = "a-compiler-that-is-not-there"


@probe(
    "static_cache_compilation_impossible",
    number=9,
    asks="a static cache, where nothing can be compiled",
)
def static_cache_compilation_impossible(context: ProbeContext) -> Evidence:
    """Ask for a static cache with the compiler hidden, and nothing said about compiling."""
    return _ask_without_compiler(context, options={})


@probe(
    "static_cache_forced_compilation",
    asks="a static cache with compilation switched on for every device, where nothing can be "
    "compiled",
)
def static_cache_forced_compilation(context: ProbeContext) -> Evidence:
    """Take the path that a GPU takes by itself: the static cache compiles."""
    make_config = getattr(transformers_library(), "CompileConfig", None)
    config: Any = make_config() if make_config else None
    if not hasattr(config, "_compile_all_devices"):
        return not_askable("this release has no switch that compiles on every device")
    config._compile_all_devices = True
    return _ask_without_compiler(context, options={"compile_config": config})


@probe(
    "static_cache_without_compilation",
    number=10,
    asks="a static cache with compilation switched off",
    needs=("model", "tokenizer"),
)
def static_cache_without_compilation(context: ProbeContext) -> Evidence:
    """Ask for the cache alone and look at the cache that ran."""
    switched_off = _compilation_off()
    if not switched_off:
        return not_askable("this release has no option that switches compilation off")
    subject = generation_subject(context)
    control = attempt(lambda: subject.generate(subject.longer))
    asked = attempt(lambda: _generate_static(subject, **switched_off))
    return _cache_evidence(subject, asked=asked, control=control)


@probe(
    "static_cache_length_ignored",
    asks=f"a static cache of {ASKED_SLOTS} positions, by the cache's own options",
)
def static_cache_length_ignored(context: ProbeContext) -> Evidence:
    """Ask for a length in `cache_config` and count the positions that were allocated."""
    if not _generation_knows("cache_config"):
        return not_askable("this release takes no options of a cache")
    subject = generation_subject(ProbeContext(device=context.device))
    asked = attempt(
        lambda: _generate_static(subject, cache_config=_asked_length(), **_compilation_off())
    )
    slots = None if asked.value is None else cache_slots(cache_of(asked.value))
    return Evidence(
        attempt=asked,
        did_it=slots == ASKED_SLOTS,
        effect="how many positions the cache that ran has",
        measured={"asked_slots": ASKED_SLOTS, "allocated_slots": slots},
        stand_in=subject.stand_in,
    )


def _generation_knows(option: str) -> bool:
    """Whether the release's generation config has an option of this name."""
    return hasattr(transformers_library().GenerationConfig(), option)


def _compilation_off() -> dict[str, Any]:
    """Return the option that keeps a static cache from compiling; {} where there is none."""
    return {"disable_compile": True} if _generation_knows("disable_compile") else {}


def _asked_length() -> dict[str, Any]:
    """Return the cache's own options, with the batch where the release demands it beside."""
    config_class = getattr(transformers_library().cache_utils, "StaticCacheConfig", None)
    wanted = inspect.signature(config_class).parameters if config_class else {}
    return {"max_cache_len": ASKED_SLOTS} | ({"batch_size": 1} if "batch_size" in wanted else {})


def _ask_without_compiler(context: ProbeContext, *, options: Mapping[str, Any]) -> Evidence:
    """Ask for a static cache while a control shows that compiling a small function fails."""
    subject = generation_subject(ProbeContext(device=context.device))
    control = attempt(lambda: subject.generate(subject.longer))
    with hidden_compiler():
        small = attempt(lambda: _compile_small(context.device))
        if not small.raised:
            return not_askable("hiding the compiler did not stop a small function from compiling")
        asked = attempt(lambda: _generate_static(subject, **options))
    premise = {"compiling_a_small_function": small.exception_type, "device": context.device}
    return _cache_evidence(subject, asked=asked, control=control, **premise)


def _generate_static(subject: Subject, **options: Any) -> Any:
    """Generate with a static cache of this call's own length."""
    # generate keeps the longest cache it ever made on the model and would reuse its length
    subject.model.__dict__.pop("_previous_max_cache_length", None)
    return subject.generate(subject.longer, cache_implementation="static", **options)


def _cache_evidence(
    subject: Subject, *, asked: Attempt[Any], control: Attempt[Any], **premise: Any
) -> Evidence:
    measured: dict[str, Any] = dict(premise)
    did_it: bool | None = False
    if asked.value is not None and control.value is not None:
        cache = cache_of(asked.value)
        needed = int(subject.longer.shape[1]) + NEW_TOKENS - 1
        slots = cache_slots(cache)
        did_it = "Static" in type(cache).__name__ and slots is not None and slots >= needed
        if cache is None:  # some releases hand no static cache back: nothing to judge by
            did_it = None
        measured |= {
            "cache_class": type(cache).__name__,
            "slots": slots,
            "slots_needed": needed,
            "same_tokens_as_dynamic": bool(
                (asked.value.sequences == control.value.sequences).all()
            ),
        }
    return Evidence(
        attempt=asked,
        control=control,
        did_it=did_it,
        effect="whether the cache that ran is static and long enough",
        measured=measured,
        stand_in=subject.stand_in,
    )


def _compile_small(device: str) -> Any:
    """Compile and run a function of one line."""
    import torch

    return torch.compile(lambda x: x.sin() * 2 + 1)(torch.ones(17, device=device))


@contextlib.contextmanager
def hidden_compiler() -> Iterator[None]:
    """Make compilation impossible: no compiler by any name, no compiled code in any cache."""
    import torch
    import torch._inductor.config as inductor

    with tempfile.TemporaryDirectory() as empty, contextlib.ExitStack() as stack:
        hidden = {
            "CC": _ABSENT_COMPILER,
            "CXX": _ABSENT_COMPILER,
            "TORCHINDUCTOR_CACHE_DIR": empty,
            "TRITON_CACHE_DIR": empty,
        }
        stack.enter_context(mock.patch.dict(os.environ, hidden))
        settings = {
            "cpp.cxx": (_ABSENT_COMPILER,),
            "fx_graph_cache": False,
            "compile_threads": 1,
        }
        stack.enter_context(inductor.patch(settings))
        torch._dynamo.reset()
        try:
            yield
        finally:
            torch._dynamo.reset()
