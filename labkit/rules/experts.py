"""What does a bound on the experts do to the function?"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Reason, Rule, reject, unknown, warn
from labkit.rules._request import Request
from labkit.spec import ModelSpec

_RULE = "moe.capacity"
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


def _capacity(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    return None if request.expert_capacity_factor is None else _reasons(spec, request, facts)


def _reasons(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Iterator[Reason]:
    factor = request.expert_capacity_factor or 0.0
    if not 0 < factor < float("inf"):
        yield reject(_RULE, f"expert_capacity_factor {factor:g} not in (0, inf)")
    if spec.num_experts is None:
        yield reject(_RULE, f"{spec.name} has no experts that a capacity could bound")
        return
    if facts.expert_capacity_supported is None:
        yield unknown(_RULE, "expert_capacity_supported", "whether the capacity would be applied")
    elif not facts.expert_capacity_supported:
        yield reject(_RULE, "this runtime cannot bound what an expert takes")
    message = f"with capacity factor {factor:g} a token's result depends on the other tokens"
    hint = "record it as part of the artefact"
    yield warn(_RULE, message, hint=hint, factor=factor, experts=spec.num_experts)
    if request.padded and (request.padding_side or facts.default_padding_side) != "right":
        message = "left padding takes slots from the experts' capacity, mask or not"
        yield warn(_RULE, message, hint="batch rows of one length", batch=request.batch_size)


CAPACITY = Rule(
    id=_RULE,
    reason="A finite capacity drops tokens, depending on what else is in the batch.",
    check=_capacity,
    admits=Example(config=MIXTRAL, request=Request(prompt_tokens=10, max_new_tokens=8)),
    refuses=Example(
        config=MIXTRAL,
        request=Request(prompt_tokens=10, max_new_tokens=8, expert_capacity_factor=1.25),
        facts=RuntimeFacts(expert_capacity_supported=True),
    ),
    unknown=Example(
        config=MIXTRAL,
        request=Request(prompt_tokens=10, max_new_tokens=8, expert_capacity_factor=1.25),
    ),
)
