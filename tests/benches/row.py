"""A row that carries its rounding ratio against decoding under its option alone."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benches._bare import bare_options_s
from benches._figures import Figure, figure


def measure_figures() -> Iterator[Figure]:
    """Compare rows that carry the rounding ratio with decoding under their options alone."""
    from labkit.backends.transformers_stack import TransformersStack
    from labkit.experiments._measuring import as_prompts, lane_sizes, measure
    from labkit.experiments._passages import load_passages
    from labkit.journal import Journal
    from labkit.knobs import parse_option
    from labkit.profiles import Lane, load_profile

    profile = dataclasses.replace(
        load_profile("cpu"), prompts=2, steps=24, float32_lane=Lane(prompts=0, steps=0)
    )
    stack = TransformersStack(profile.model, dtype=profile.dtype)
    prompts = as_prompts(stack, load_passages(profile.prompts), profile, whole=False)
    names = ("chunked_prefill:chunk=64", "eager_attention", "sdpa_kernel", "static_cache")
    options = [parse_option(name) for name in names]
    (size,) = lane_sizes(profile, prompts)
    values = []
    for _ in range(3):
        stack.backend(profile.dtype)  # loads what the last round dropped
        with tempfile.TemporaryDirectory() as scratch:
            journal = Journal(Path(scratch) / "journal.jsonl")
            began_s = time.perf_counter()
            section = measure(
                stack,
                profile,
                prompts,
                options,
                journal=journal,
                work=Path(scratch),
                progress=lambda *_: None,
            )
            whole_s = time.perf_counter() - began_s
        values.append(whole_s / bare_options_s(stack.backend(profile.dtype), size, options))
    same = sum(row["identical"] for row in section["rows"])
    runs = sum(row["runs"] for row in section["rows"])
    yield figure(
        "a row with its rounding ratio over its bare decode",
        values,
        unit="ratio",
        target=2.2,
        at_most=True,
        note=f"{len(options)} runtime rows at one precision, baseline and reference shared, "
        f"{same} of {runs} outputs identical; 2 prompts of 300 tokens, {profile.steps} steps",
    )
