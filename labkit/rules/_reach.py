"""How far a model's positions reach, with what the request changes about them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from labkit.rules._facts import RuntimeFacts
from labkit.rules._request import Request
from labkit.spec import ModelSpec

EXTENDING_KINDS = frozenset(
    {"linear", "dynamic", "ntk", "yarn", "longrope", "su", "llama3", "deepseek_yarn"}
)
DYNAMIC_KINDS = frozenset({"dynamic", "ntk"})
NO_TOKENIZER_LIMIT = 1_000_000  # tokenizers without a stored limit hold a number near 10^30


@dataclass(frozen=True, slots=True)
class Reach:
    """Positions a model can address.

    Attributes:
        limit: Positions in all, None where the file states none.
        trained: Positions before any extension, None where that is not stated.
        kind: Kind of the RoPE scaling in force.
        factor: Its factor.
    """

    limit: int | None
    trained: int | None
    kind: str = "none"
    factor: float | None = None


def as_number(value: object) -> float | None:
    """Return a finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def scaled(positions: int | None, factor: float | None) -> int | None:
    """Return the positions after an extension, or None where it is not a sane one."""
    if positions is None or factor is None or not 1 <= factor <= 2**20:
        return positions
    return int(positions * factor) if positions < 2**53 else positions


def override_kind(override: object) -> str | None:
    """Return the RoPE type a set of parameters names, None where it names none."""
    if not hasattr(override, "get"):
        return None
    kind = override.get("rope_type", override.get("type"))
    return kind if isinstance(kind, str) else None


def reach(spec: ModelSpec, request: Request) -> Reach:
    """Return how far the positions reach for this request."""
    if request.rope_scaling is None or request.rope_after_load:
        return _shipped(spec)
    return _overridden(spec, request)


def _shipped(spec: ModelSpec) -> Reach:
    scaling, limit = spec.rope_scaling, spec.max_position
    if scaling.kind not in EXTENDING_KINDS:
        return Reach(limit, limit, scaling.kind, scaling.factor)
    original, factor = scaling.original_max_position, as_number(scaling.factor)
    if scaling.kind in DYNAMIC_KINDS:
        trained = limit if original is None else original
        return Reach(scaled(limit, factor), trained, scaling.kind, factor)
    if scaling.kind.endswith("yarn") and original is not None and (limit or 0) <= original:
        limit = scaled(original, factor)  # some files state the length before the extension
    return Reach(limit, original, scaling.kind, factor)


def _overridden(spec: ModelSpec, request: Request) -> Reach:
    override = request.rope_scaling or {}
    stated = override.get("original_max_position_embeddings")
    base = stated if isinstance(stated, int) and stated > 0 else None
    if base is None:
        shipped = _shipped(spec)
        base = shipped.trained if shipped.trained is not None else shipped.limit
    kind, factor = override_kind(override) or "default", as_number(override.get("factor"))
    limit = scaled(base, factor) if kind in EXTENDING_KINDS else base
    return Reach(limit, base, kind, factor)


def tokenizer_limit(facts: RuntimeFacts) -> int | None:
    """Return the tokenizer's own limit, None where it is not known or stands for none."""
    limit = facts.tokenizer_max_tokens
    return None if limit is None or limit > NO_TOKENIZER_LIMIT else limit


def needed_tokens(request: Request, facts: RuntimeFacts) -> int | None:
    """Return the tokens the context must hold, after a truncation that really cuts."""
    total, prompt = request.total_tokens, request.prompt_tokens
    if not request.truncation or total is None or prompt is None:
        return total
    limit = tokenizer_limit(facts)
    return total if limit is None else total - max(0, prompt - limit)
