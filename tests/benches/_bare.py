"""The forward passes that an experiment needs, called directly and timed alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any


def bare_passes_s(profile: Any) -> float:
    """Return the seconds of an experiment's forward passes alone, at both precisions."""
    from labkit.backends.transformers_stack import TransformersStack
    from labkit.experiments._measuring import as_prompts, lane_sizes
    from labkit.experiments._passages import load_passages
    from labkit.knobs import preservation_table

    stack = TransformersStack(profile.model, dtype=profile.dtype)
    passages = load_passages(profile.prompts)
    total_s = 0.0
    for size in lane_sizes(profile, as_prompts(stack, passages, profile, whole=False)):
        same = size.precision == profile.dtype
        options = [o for o in preservation_table() if o.knob.precision is None or same]
        total_s += _bare_lane_s(size, stack, options)
    return total_s


def _bare_lane_s(size: Any, stack: Any, options: Sequence[Any]) -> float:
    backend, reference = stack.backend(size.precision), stack.backend(size.reference)
    prompts = {p for o in options for g in o.groups(size.prompts_of(o)) for p in g}
    total_s = 0.0
    for prompt in prompts | set(size.prompts):
        total_s += _bare_pass_s(backend, [prompt], size.steps)
        total_s += _bare_pass_s(reference, [prompt], size.steps)
    return total_s + bare_options_s(backend, size, options)


def bare_options_s(backend: Any, size: Any, options: Sequence[Any]) -> float:
    total_s = 0.0
    for option in options:
        with option.applied(backend) as variant:
            for group in option.groups(size.prompts_of(option)):
                total_s += _bare_pass_s(variant, group, size.steps)
    return total_s


def _bare_pass_s(backend: Any, group: Sequence[Any], steps: int) -> float:
    longest = max(len(prompt.ids) for prompt in group)
    session = backend.session(capacity_tokens=longest + steps)
    began_s = time.perf_counter()
    session.next_logits([prompt.ids for prompt in group])
    for _ in range(steps - 1):
        session.next_logits([[5]] * len(group))
    return time.perf_counter() - began_s
