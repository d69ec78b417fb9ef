"""Is the cache of a known kind, long enough, and free of hidden dependencies?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reading import nearest
from labkit.rules._reason import Example, Found, Rule, reject, unknown, warn
from labkit.rules._request import Request
from labkit.rules.context import GPT2
from labkit.rules.precision import CACHE_BITS, compute_dtype
from labkit.spec import ModelSpec

STATIC_KINDS = frozenset(
    {
        "static",
        "offloaded_static",
        "sliding_window",
        "hybrid",
        "hybrid_chunked",
        "offloaded_hybrid",
        "offloaded_hybrid_chunked",
    }
)
KINDS = STATIC_KINDS | {"dynamic", "offloaded", "quantized", "paged"}


def _kind(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    asked = request.cache_implementation
    if asked is None:
        return None
    if asked not in KINDS:
        near = nearest(asked, KINDS)
        hint = f"did you mean {near}?" if near else f"known: {', '.join(sorted(KINDS))}"
        return (reject("cache.kind", f"{asked} is not a kind of cache", hint=hint),)
    if not request.use_cache:
        return (warn("cache.kind", f"use_cache is false, so the {asked} cache is ignored"),)
    return None


KIND = Rule(
    id="cache.kind",
    reason="A cache that does not exist, or is switched off, is not the one asked for.",
    check=_kind,
    admits=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, cache_implementation="dynamic"),
    ),
    refuses=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, cache_implementation="statc"),
    ),
)


def _compilation(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    kind, wanted = request.cache_implementation, request.compile
    if facts.compile_available or wanted is False or (kind is None and wanted is None):
        return None
    if wanted is None and (kind not in STATIC_KINDS or facts.device_kind == "cpu"):
        return None  # on a CPU nothing is compiled unless it is asked for
    if facts.compile_available is None:
        return (unknown("cache.compile", "compile_available", "whether this runtime compiles"),)
    if wanted:
        return (reject("cache.compile", "compilation is asked for and not available"),)
    if facts.device_kind is None:
        question = f"whether a {kind} cache is compiled on this device, which cannot compile"
        return (unknown("cache.compile", "device_kind", question),)
    message = f"a {kind} cache compiles the model on {facts.device_kind}, which is not available"
    return (reject("cache.compile", message, hint="set compile to false"),)


_STATIC = Request(prompt_tokens=300, max_new_tokens=48, cache_implementation="static")

COMPILE = Rule(
    id="cache.compile",
    reason="A static cache depends on compilation, which nothing in the request mentions.",
    check=_compilation,
    admits=Example(
        config=GPT2,
        request=Request(
            prompt_tokens=300, max_new_tokens=48, cache_implementation="static", compile=False
        ),
        facts=RuntimeFacts(device_kind="cuda", compile_available=False),
    ),
    refuses=Example(
        config=GPT2,
        request=_STATIC,
        facts=RuntimeFacts(device_kind="cuda", compile_available=False),
    ),
    unknown=Example(config=GPT2, request=_STATIC),
)


def _length(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    asked = request.cache_tokens
    if asked is None:
        return None
    rule, kind = "cache.length", request.cache_implementation or "dynamic"
    if kind not in STATIC_KINDS:
        message = f"a length of {asked} has no effect on a {kind} cache"
        return (warn(rule, message, hint="ask for a static cache", cache_tokens=asked),)
    total = request.total_tokens
    needed = None if total is None else total - 1  # the last token is never read back
    if needed is not None and asked < needed:
        message = f"{asked} slots are too few for {needed} tokens in the cache"
        hint = f"at least {needed} slots"
        return (reject(rule, message, hint=hint, cache_tokens=asked, needed_tokens=needed),)
    if facts.cache_length_honoured is None:
        question = f"whether a cache of {asked} slots would be allocated as asked"
        return (unknown(rule, "cache_length_honoured", question, cache_tokens=asked),)
    if facts.cache_length_honoured or asked == needed:
        return None
    message = f"the library would not allocate the {asked} slots asked for"
    return (warn(rule, message, cache_tokens=asked, needed_tokens=needed),)


def _static_of(tokens: int) -> Request:
    return Request(
        prompt_tokens=12,
        max_new_tokens=8,
        cache_implementation="static",
        cache_tokens=tokens,
        compile=False,
    )


LENGTH = Rule(
    id="cache.length",
    reason="Too few slots end in an index error, and a length asked for may not be read.",
    check=_length,
    admits=Example(
        config=GPT2, request=_static_of(64), facts=RuntimeFacts(cache_length_honoured=True)
    ),
    refuses=Example(config=GPT2, request=_static_of(14)),
    unknown=Example(config=GPT2, request=_static_of(64)),
)


def _storage(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    stored, computed = request.kv_cache_dtype, compute_dtype(spec, request)
    if stored is None and request.cache_implementation == "quantized":
        stored = "int4"  # the library's own default for a quantised cache
    if stored is None:
        return _default(facts.default_cache_dtype, computed) if request.use_cache else None
    if stored not in CACHE_BITS:
        hint = f"known: {', '.join(CACHE_BITS)}"
        return (reject("cache.dtype", f"{stored} is not a type to store a cache in", hint=hint),)
    if computed is None and CACHE_BITS[stored] >= 16:
        question = f"whether a {stored} cache is narrower than the computing type"
        return (unknown("cache.dtype", "dtype", question),)
    if CACHE_BITS[stored] >= CACHE_BITS.get(computed or "", 16):
        return None
    message = f"a {stored} cache rounds keys and values, which makes another function"
    hint = "record it as part of the artefact"
    return (warn("cache.dtype", message, hint=hint, bits=CACHE_BITS[stored]),)


def _default(kept: str | None, computed: str | None) -> Found:
    """Say whether the type that a cache has by itself is narrower than the computing type."""
    # nobody asked for a type by name, so that nobody is told of one that is not known
    if kept in (None, "auto", computed) or computed not in CACHE_BITS:
        return None
    bits = CACHE_BITS.get(kept)
    if bits is None:
        question = f"whether a cache kept in {kept} is narrower than {computed}"
        return (unknown("cache.dtype", "default_cache_dtype", question),)
    if bits >= CACHE_BITS[computed]:
        return None
    message = f"keys and values computed in {computed} would be kept in {kept}, unasked"
    return (warn("cache.dtype", message, hint=f"set kv_cache_dtype to {computed}", bits=bits),)


STORAGE = Rule(
    id="cache.dtype",
    reason="A narrower cache rounds what every later token reads.",
    check=_storage,
    admits=Example(
        config=GPT2,
        request=Request(
            prompt_tokens=10, max_new_tokens=8, dtype="float16", kv_cache_dtype="float16"
        ),
    ),
    refuses=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, kv_cache_dtype="float8_e4m3fn"),
    ),
    unknown=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, kv_cache_dtype="float16"),
    ),
)
