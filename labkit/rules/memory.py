"""Does the cache fit the device?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Rule, reject, unknown
from labkit.rules._request import Request
from labkit.rules.context import LLAMA3
from labkit.rules.precision import CACHE_BITS, compute_dtype
from labkit.spec import ModelSpec

_WIDEST_PER_16_BITS = 4  # float64, the widest type a cache is stored in
SMALL_CACHE_BYTES = 2**30  # any device that holds a model of this kind has room for so much


def _bits(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> int:
    """Return the width of one cached number; 16 where nothing states it."""
    by_itself = facts.default_cache_dtype
    computed = compute_dtype(spec, request) if by_itself in (None, "auto") else by_itself
    return CACHE_BITS.get(request.kv_cache_dtype or computed or "float16", 16)


def _at_most(spec: ModelSpec, request: Request, total: int) -> int | None:
    """Return an upper bound in bytes without looking at every layer."""
    per_token = spec.kv_bytes_per_token
    if per_token is None:
        return None
    return per_token * total * request.batch_size * _WIDEST_PER_16_BITS


def _memory(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    total, available = request.total_tokens, facts.device_memory_bytes
    if total is None or not request.use_cache:
        return None
    bound = _at_most(spec, request, total)
    if bound is not None and bound <= (SMALL_CACHE_BYTES if available is None else available):
        return None
    return _exact(spec, request, facts)


def _exact(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    total, available = request.total_tokens or 0, facts.device_memory_bytes
    rule, batch = "memory.kv", request.batch_size
    if total < 0 or batch < 0:
        return None  # `request.counts` refuses these
    in_bytes = spec.cache_bytes(tokens=total, batch=batch, bytes_per_element=1)
    if in_bytes is None:
        question = f"how many bytes a token of {spec.name} takes in the cache"
        return (unknown(rule, "kv_bytes_per_token", question, tokens=total),)
    needed = in_bytes * _bits(spec, request, facts) // 8
    if available is None and needed > SMALL_CACHE_BYTES:
        question = f"whether the device has room for a cache of {needed} bytes"
        return (unknown(rule, "device_memory_bytes", question, cache_bytes=needed),)
    if available is None or needed <= available:
        return None
    message = f"the cache of {total} tokens x {batch} rows takes {needed} bytes of {available}"
    hint = _what_fits(spec, request, available, bits=_bits(spec, request, facts))
    return (reject(rule, message, hint=hint, cache_bytes=needed, device_memory_bytes=available),)


def _what_fits(spec: ModelSpec, request: Request, available: int, *, bits: int) -> str:
    """Return the largest batch at this length, or the largest length at one row."""
    total = request.total_tokens or 0
    one_row = (spec.cache_bytes(tokens=total, bytes_per_element=1) or 0) * bits // 8
    if 0 < one_row <= available:
        return f"at most {available // one_row} rows of {total} tokens"
    per_token = (spec.kv_bytes_per_token or 0) * bits // 16
    tokens = max(0, available) // per_token if per_token > 0 else 0
    return f"at most {tokens} tokens in one row"


_BIG = Request(prompt_tokens=100_000, max_new_tokens=1000, batch_size=64, padding_side="left")

MEMORY = Rule(
    id="memory.kv",
    reason="A cache that does not fit ends the run after the work has begun.",
    check=_memory,
    admits=Example(
        config=LLAMA3, request=_BIG, facts=RuntimeFacts(device_memory_bytes=400 * 2**30)
    ),
    refuses=Example(
        config=LLAMA3, request=_BIG, facts=RuntimeFacts(device_memory_bytes=24 * 2**30)
    ),
    unknown=Example(config=LLAMA3, request=_BIG),
)
