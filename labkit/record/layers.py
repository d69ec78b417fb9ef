"""The four layers of a run record, and what a difference in each of their fields means.

This is the one table of fields: the JSON Schema, the reader, the identity and the diff are all
derived from it. A field of your own is one more line here.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

Effect = Literal["artefact", "question", "arithmetic", "place"]
EFFECTS: tuple[Effect, ...] = ("artefact", "question", "arithmetic", "place")

Json = str | int | float | bool | list[Any] | dict[str, Any]
STAGES = ("requested", "resolved", "observed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """One field of a record, at up to three stages; a stage that is None was not recorded.

    A value that is known to be nothing is the word `none`, so that it cannot be taken for one
    that nobody looked at.

    Attributes:
        requested: What was asked for.
        resolved: What the request was turned into before the run.
        observed: What the live objects had in force.
    """

    requested: Json | None = None
    resolved: Json | None = None
    observed: Json | None = None

    @property
    def in_force(self) -> Json | None:
        """The value that counts: the last one that was seen. A request alone is none."""
        return self.resolved if self.observed is None else self.observed

    @property
    def is_changed(self) -> bool:
        """Whether the value was changed on its way from the request to the live object."""
        stages = (self.requested, self.resolved, self.observed)
        known = [value for value in stages if value is not None]
        return any(value != known[0] for value in known[1:])


def _stated(effect: Effect, what: str, *, holds: str = "string", knobs: str = "") -> Any:
    """Return a dataclass field with its meaning.

    Args:
        effect: What a difference changes, as far as declared.
        what: What the field says, for the schema.
        holds: The JSON types of its values, separated by spaces.
        knobs: The lab's options that set it, as `labkit.record.measured` reads them.
    """
    meta = {"effect": effect, "what": what, "holds": holds, "knobs": knobs}
    return field(default_factory=Stated, metadata=meta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What was evaluated."""

    model: Stated = _stated("place", "name of the model, as asked for and as reported")
    revision: Stated = _stated("place", "commit of a hub model; the digest covers its files")
    checkpoint: Stated = _stated("artefact", "SHA-256 over weights, config and tokenizer files")
    weights_sample: Stated = _stated(
        "artefact", "SHA-256 over values sampled from every live parameter, exact casts alike"
    )
    tokenizer: Stated = _stated("artefact", "SHA-256 of the live tokenizer")
    chat_template: Stated = _stated("artefact", "SHA-256 of the template in force, or none")
    generation_config: Stated = _stated("artefact", "SHA-256 of the defaults for generating")
    prompts: Stated = _stated("question", "SHA-256 of the prompts' texts")
    rendered_prompts: Stated = _stated("question", "SHA-256 of the prompts as rendered")
    prompt_tokens: Stated = _stated("question", "SHA-256 of the prompts' token ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class Substrate:
    """The software and hardware below it."""

    system: Stated = _stated("place", "operating system and instruction set")
    processor: Stated = _stated("arithmetic", "model of the processor, which chooses kernels")
    cores: Stated = _stated("place", "logical processors", holds="integer")
    threads: Stated = _stated("arithmetic", "threads that share a sum", holds="integer")
    memory_bytes: Stated = _stated("place", "main memory", holds="integer")
    accelerator: Stated = _stated("arithmetic", "name of the accelerator, or none")
    driver: Stated = _stated("arithmetic", "CUDA release that torch was built for, or none")
    container: Stated = _stated("place", "digest of the container's image, or none")
    python: Stated = _stated("place", "release of Python")
    torch: Stated = _stated("arithmetic", "release of torch")
    transformers: Stated = _stated("arithmetic", "release of transformers")
    packages: Stated = _stated("place", "other releases that can change a result", holds="object")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPath:
    """How the outputs were computed."""

    device: Stated = _stated("arithmetic", "kind of the device of the parameters")
    dtype: Stated = _stated(
        "arithmetic", "dtype of the parameters, `mixed` if they differ", knobs="float32 bfloat16"
    )
    parameters: Stated = _stated("arithmetic", "live parameters counted by dtype", holds="object")
    weight_rounding: Stated = _stated(
        "artefact",
        "rounding imposed on the weights",
        holds="object string",
        knobs="quantised_weights",
    )
    rope: Stated = _stated(
        "artefact",
        "rotary positions in force, with a digest of the live frequencies",
        holds="object string",
        knobs="rope_scaling stretched_rope",
    )
    window: Stated = _stated(
        "artefact", "window imposed by the runtime", holds="object string", knobs="window"
    )
    truncation: Stated = _stated("artefact", "what happens to a prompt that is too long")
    kv_cache_dtype: Stated = _stated("artefact", "dtype of the stored keys and values")
    attention: Stated = _stated(
        "arithmetic", "attention implementation in force", knobs="eager_attention=eager"
    )
    sdpa_kernels: Stated = _stated(
        "arithmetic", "SDPA kernels allowed", holds="array", knobs="sdpa_kernel:kernel"
    )
    cache: Stated = _stated(
        "arithmetic", "class of the cache", knobs="static_cache=StaticCache no_cache=NoneType"
    )
    prefill_pieces: Stated = _stated(
        "arithmetic",
        "tokens of each prompt piece",
        holds="array",
        knobs="chunked_prefill:chunk",
    )
    batch_rows: Stated = _stated(
        "arithmetic", "sequences in one call", holds="integer", knobs="padded_batch:rows"
    )
    mask: Stated = _stated("arithmetic", "whose attention mask: the library's, padding, imposed")
    other_changes: Stated = _stated(
        "artefact", "changes to the model that have no field of their own", holds="object string"
    )
    decoding: Stated = _stated("artefact", "how a token is chosen", holds="object string")
    steps: Stated = _stated("question", "tokens generated after each prompt", holds="integer")
    seeds: Stated = _stated("question", "every seed, by what it seeds", holds="object")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationContract:
    """How outputs became results."""

    profile: Stated = _stated("question", "size of the run, in full", holds="object")
    parameters: Stated = _stated("question", "what was set apart from the profile", holds="object")
    extractor: Stated = _stated("question", "how an answer is read from an output, or none")
    scorer: Stated = _stated("question", "how an answer is judged, or none")
    metric: Stated = _stated("question", "what the aggregate is")
    uncertainty: Stated = _stated("question", "how its uncertainty is computed")
    harness: Stated = _stated(
        "question", "commit of the lab's code, and if it differed", holds="object string"
    )


LAYERS: dict[str, type] = {
    "identity": Identity,
    "substrate": Substrate,
    "execution": ExecutionPath,
    "evaluation": EvaluationContract,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldInfo:
    """What a field of a layer means.

    Attributes:
        name: `layer.field`.
        effect: What a difference changes, as declared.
        what: What it says.
        holds: The JSON types of its values.
        knobs: The lab's options that set it.
    """

    name: str
    effect: Effect
    what: str
    holds: tuple[str, ...]
    knobs: tuple[str, ...]


@cache
def fields_of_layers() -> dict[str, FieldInfo]:
    """Return every field of every layer by its name, in the order of the record."""
    return {
        f"{layer}.{item.name}": FieldInfo(
            name=f"{layer}.{item.name}",
            effect=item.metadata["effect"],
            what=item.metadata["what"],
            holds=tuple(item.metadata["holds"].split()),
            knobs=tuple(item.metadata["knobs"].split()),
        )
        for layer, kind in LAYERS.items()
        for item in dataclasses.fields(kind)
    }
