"""From a symptom to the fields of two records that are compared first.

A route narrows the search and assigns no cause: a difference is where one begins to look.
"""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from typing import Any

from labkit.errors import ResultsError
from labkit.record import Difference, Measured, RunRecord, diff_records


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """What was noticed, and where to look.

    Attributes:
        name: How it is asked for.
        first: The fields to compare, in their order.
        elsewhere: What to compare that no record of the lab holds.
    """

    name: str
    first: tuple[str, ...]
    elsewhere: tuple[str, ...]


_MODEL = ("identity.checkpoint", "identity.weights_sample", "identity.tokenizer")
_ENGINE = ("substrate.torch", "substrate.transformers", "substrate.driver")
_PATH = ("execution.attention", "execution.sdpa_kernels", "execution.cache")
_LENGTHS = ("identity.prompt_tokens", "execution.steps")

SYMPTOMS: dict[str, Symptom] = {
    symptom.name: symptom
    for symptom in (
        Symptom(
            name="score changed",
            first=(
                "identity.prompts",
                "execution.steps",
                "execution.truncation",
                "evaluation.extractor",
                "evaluation.scorer",
                "identity.chat_template",
                "identity.rendered_prompts",
                "evaluation.harness",
                "execution.decoding",
            ),
            elsewhere=("order of the items", "share of outputs cut at the limit"),
        ),
        Symptom(
            name="greedy output differs",
            first=(
                *_MODEL,
                *_ENGINE,
                *_PATH,
                "execution.batch_rows",
                "execution.prefill_pieces",
                "execution.kv_cache_dtype",
                "execution.dtype",
                "execution.weight_rounding",
            ),
            elsewhere=("batches as they were really formed", "what was in a prefix cache"),
        ),
        Symptom(
            name="throughput or cost differs",
            first=(*_LENGTHS, "execution.batch_rows", *_PATH, *_ENGINE, "substrate.accelerator"),
            elsewhere=("workload trace", "requests in flight"),
        ),
        Symptom(
            name="tail latency too high",
            first=("execution.prefill_pieces", "execution.batch_rows", "substrate.accelerator"),
            elsewhere=("arrival process", "offered and achieved load", "queue lengths"),
        ),
        Symptom(
            name="structured output valid but wrong",
            first=("execution.decoding", "evaluation.extractor", "evaluation.scorer"),
            elsewhere=("schema that was enforced", "values of the arguments", "abstentions"),
        ),
        Symptom(
            name="retrieval passes, workload fails",
            first=(*_LENGTHS, "execution.rope", "execution.window", "execution.truncation"),
            elsewhere=("curve of the task over context", "distribution of contexts"),
        ),
        Symptom(
            name="allocation fails",
            first=(
                "execution.parameters",
                "execution.dtype",
                "execution.kv_cache_dtype",
                "execution.cache",
                *_LENGTHS,
                "execution.batch_rows",
                "substrate.memory_bytes",
                "substrate.accelerator",
            ),
            elsewhere=("tokens in the cache pool", "the engine's share of memory"),
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where two runs part, by a symptom.

    Attributes:
        symptom: What was noticed.
        first: Differences in the fields to compare first, in their order.
        alike: Those of the fields that agree.
        unknown: Those that one or both records lack; nothing is known of them.
        then: Differences elsewhere in the records.
        elsewhere: What to compare that no record holds.
    """

    symptom: str
    first: tuple[Difference, ...]
    alike: tuple[str, ...]
    unknown: tuple[str, ...]
    then: tuple[Difference, ...]
    elsewhere: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the route as plain JSON."""
        return asdict(self)


def route(left: RunRecord, right: RunRecord, symptom: str, measured: Measured) -> Route:
    """Compare two records, the fields that the symptom points to first.

    Args:
        left: One record.
        right: The other.
        symptom: One of `SYMPTOMS`.
        measured: The lab's verdicts on options.

    Raises:
        ResultsError: If there is no such symptom.
    """
    asked = _find_symptom(symptom)
    differences = {item.field: item for item in diff_records(left, right, measured).differences}
    lacking = [n for n in asked.first if None in (left.in_force(n), right.in_force(n))]
    known = [name for name in asked.first if name not in lacking]
    return Route(
        symptom=asked.name,
        first=tuple(differences[name] for name in known if name in differences),
        alike=tuple(name for name in known if name not in differences),
        unknown=tuple(lacking),
        then=tuple(item for name, item in differences.items() if name not in asked.first),
        elsewhere=asked.elsewhere,
    )


def _find_symptom(name: str) -> Symptom:
    if name in SYMPTOMS:
        return SYMPTOMS[name]
    near = difflib.get_close_matches(name, SYMPTOMS, n=1, cutoff=0.4)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ResultsError(
        f"A symptom must be one of {'; '.join(SYMPTOMS)}; got symptom={name!r}. {hint}".strip()
    )
