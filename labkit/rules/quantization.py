"""Is quantisation possible here, and is it said to be another model?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Rule, reject, unknown, warn
from labkit.rules._request import Request
from labkit.rules.context import LLAMA3
from labkit.spec import ModelSpec

_INT8 = Request(prompt_tokens=10, max_new_tokens=8, quantization="bitsandbytes_8bit")
_PLAIN = Request(prompt_tokens=10, max_new_tokens=8)


def _same_backend(method: str, backend: str) -> bool:
    return method == backend or method.startswith((f"{backend}_", f"{backend}-"))


def _backend(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    method = request.quantization or spec.quantization
    if method is None:
        return None
    backends = facts.quantization_backends
    if backends is None:
        question = f"whether the backend for {method} is installed"
        return (unknown("quantization.backend", "quantization_backends", question),)
    if any(_same_backend(method, backend) for backend in backends):
        return None
    hint = f"installed: {', '.join(backends)}" if backends else "no backend is installed"
    return (reject("quantization.backend", f"no backend for {method}", hint=hint),)


BACKEND = Rule(
    id="quantization.backend",
    reason="A quantised load without its backend is refused late, or falls back.",
    check=_backend,
    admits=Example(
        config=LLAMA3, request=_INT8, facts=RuntimeFacts(quantization_backends=("bitsandbytes",))
    ),
    refuses=Example(config=LLAMA3, request=_INT8, facts=RuntimeFacts(quantization_backends=())),
    unknown=Example(config=LLAMA3, request=_INT8),
)


def _changes(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    asked, stored = request.quantization, spec.quantization
    if asked is None or asked == stored:
        return None
    if stored is not None and not _same_backend(asked, stored):
        message = f"{spec.name} is stored in {stored} and cannot be quantised with {asked}"
        return (reject("quantization.artefact", message, hint=f"leave it in {stored}"),)
    message = f"{asked} replaces the weights of {spec.name}, which makes another model"
    return (warn("quantization.artefact", message, hint="record it as part of the artefact"),)


ARTEFACT = Rule(
    id="quantization.artefact",
    reason="Rounded weights are other weights, however gentle the rounding.",
    check=_changes,
    admits=Example(config=LLAMA3, request=_PLAIN),
    refuses=Example(config=LLAMA3, request=_INT8),
)
