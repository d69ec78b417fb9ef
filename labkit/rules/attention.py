"""Can this attention implementation run this architecture here?"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reading import nearest
from labkit.rules._reason import Example, Found, Reason, Rule, reject, unknown
from labkit.rules._request import Request
from labkit.rules.context import GPT2
from labkit.rules.precision import compute_dtype
from labkit.spec import ModelSpec

IMPLEMENTATIONS = (
    "eager",
    "sdpa",
    "flex_attention",
    "flash_attention_2",
    "flash_attention_3",
    "flash_attention_4",
)
GEMMA2 = {
    "model_type": "gemma2",
    "hidden_size": 2304,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 256000,
    "max_position_embeddings": 8192,
    "sliding_window": 4096,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}
_LEAST_CAPABILITY = {"flash_attention_2": (8, 0), "flash_attention_3": (9, 0)}
_WIDEST_HEAD = {"flash_attention_2": 256, "flash_attention_3": 256}


def _name(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    asked = request.attention_implementation
    if asked is None or asked in IMPLEMENTATIONS:
        return None
    if asked in (facts.attention_implementations or ()):
        return None
    near = nearest(asked, IMPLEMENTATIONS)
    hint = f"did you mean {near}?" if near else f"known: {', '.join(IMPLEMENTATIONS)}"
    return (reject("attention.name", f"{asked} is not an attention implementation", hint=hint),)


NAME = Rule(
    id="attention.name",
    reason="A misspelt kernel must not fall back to the default one.",
    check=_name,
    admits=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, attention_implementation="sdpa"),
    ),
    refuses=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, attention_implementation="flash"),
    ),
)


def _installed(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    asked, ran = request.attention_implementation, facts.attention_implementations
    if asked is None or asked == "eager" or (ran is not None and asked in ran):
        return None
    if asked.startswith("flash_attention"):
        return _flash_reasons(asked, spec, request, facts)
    if ran is None:
        return None
    hint = f"ran: {', '.join(ran)}"
    return (reject("attention.runs", f"{asked} did not run for {spec.name} here", hint=hint),)


def _flash_reasons(
    asked: str, spec: ModelSpec, request: Request, facts: RuntimeFacts
) -> Iterator[Reason]:
    rule, installed = "attention.runs", facts.flash_attention_installed
    if installed is None:
        yield unknown(rule, "flash_attention_installed", f"whether {asked} is installed")
    elif not installed:
        yield reject(rule, f"{asked} is not installed", hint="install it, or ask for sdpa")
    elif facts.attention_implementations is not None:
        yield reject(rule, f"{asked} is installed and did not run for {spec.name} here")
    yield from _flash_device(asked, facts)
    dtype = compute_dtype(spec, request)
    if dtype in ("float32", "float64"):
        yield reject(rule, f"{asked} computes in 16 bits; got dtype {dtype}")
    width, head = _WIDEST_HEAD.get(asked), spec.head_dim
    if width is not None and head is not None and head > width:
        message = f"{asked} takes heads up to {width} wide; {spec.name} has {head}"
        yield reject(rule, message, head_dim=head, widest=width)


def _flash_device(asked: str, facts: RuntimeFacts) -> Iterator[Reason]:
    least, capability = _LEAST_CAPABILITY.get(asked), facts.compute_capability
    if facts.device_kind is not None and facts.device_kind != "cuda":
        yield reject("attention.runs", f"{asked} needs a CUDA device; got {facts.device_kind}")
    elif least is not None and capability is not None and capability < least:
        have, need = ".".join(map(str, capability)), ".".join(map(str, least))
        message = f"{asked} needs compute capability {need}; this device has {have}"
        yield reject("attention.runs", message, capability=have, needed=need)


_FLASH = Request(
    prompt_tokens=10,
    max_new_tokens=8,
    dtype="float16",
    attention_implementation="flash_attention_2",
)

RUNS = Rule(
    id="attention.runs",
    reason="A kernel needs its package, its device, its types and its head widths.",
    check=_installed,
    admits=Example(
        config=GPT2,
        request=_FLASH,
        facts=RuntimeFacts(
            flash_attention_installed=True, device_kind="cuda", compute_capability=(9, 0)
        ),
    ),
    refuses=Example(
        config=GPT2, request=_FLASH, facts=RuntimeFacts(flash_attention_installed=False)
    ),
    unknown=Example(config=GPT2, request=_FLASH),
)


def _softcap(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    cap = spec.attn_logit_softcap
    if cap is None:
        return None
    chosen, honours = (
        request.attention_implementation or facts.default_attention,
        facts.softcap_implementations,
    )
    if chosen is None:
        question = f"which attention runs by default, and whether it caps logits at {cap:g}"
        return (unknown("attention.softcap", "default_attention", question, softcap=cap),)
    if chosen == "eager" or (honours is not None and chosen in honours):
        return None
    if honours is None and chosen != "sdpa":
        question = f"whether {chosen} caps logits at {cap:g}"
        return (unknown("attention.softcap", "softcap_implementations", question, softcap=cap),)
    message = f"{chosen} does not cap logits at {cap:g}, which {spec.name} was trained with"
    return (reject("attention.softcap", message, hint="ask for eager", softcap=cap),)


SOFTCAP = Rule(
    id="attention.softcap",
    reason="A fused kernel that has no soft-cap computes another function.",
    check=_softcap,
    admits=Example(
        config=GEMMA2,
        request=Request(prompt_tokens=10, max_new_tokens=8, attention_implementation="eager"),
    ),
    refuses=Example(
        config=GEMMA2,
        request=Request(prompt_tokens=10, max_new_tokens=8, attention_implementation="sdpa"),
    ),
    unknown=Example(config=GEMMA2, request=Request(prompt_tokens=10, max_new_tokens=8)),
)
