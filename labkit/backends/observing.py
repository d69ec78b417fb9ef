"""What a live transformers model and session have in force, by the fields of a run record.

Everything here is read from the objects that compute: nothing from what was asked of them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from labkit.backends.transformers import TransformersBackend, TransformersSession
from labkit.files import digest_of
from labkit.models import LoadedModel

Facts = dict[str, object]
SAMPLED = 64
"""Values taken from each parameter for the digest of the live weights."""

_OF_ANOTHER_FIELD = ("weight_bits", "window", "sinks", "rope_parameters")


def resolve_model(loaded: LoadedModel) -> Facts:
    """Return what the name of a model was resolved to."""
    found = {
        "identity.model": loaded.source.name,
        "identity.revision": loaded.source.revision,
    }
    return {name: value for name, value in found.items() if value is not None}


def observe_model(loaded: LoadedModel) -> Facts:
    """Return what the live model, its tokenizer and its defaults are."""
    model = loaded.model
    counts: Counter[str] = Counter()
    for parameter in model.parameters():
        counts[str(parameter.dtype).removeprefix("torch.")] += parameter.numel()
    return {
        "identity.checkpoint": loaded.digest,
        "identity.weights_sample": sample_weights(model),
        "identity.tokenizer": _digest_of_tokenizer(loaded.tokenizer),
        "identity.chat_template": _digest_of_template(loaded.tokenizer),
        "identity.generation_config": _digest_of_defaults(model),
        "execution.device": model.device.type,
        "execution.dtype": next(iter(counts)) if len(counts) == 1 else "mixed",
        "execution.parameters": dict(sorted(counts.items())),
        "execution.rope": observe_rope(model),
    }


def sample_weights(model: Any) -> str:
    """Return a SHA-256 over evenly spaced values of every parameter, as float64.

    A cast that keeps every value keeps the digest; rounding the weights changes it. It is a
    sample: a change of a few single weights may escape it.
    """
    whole = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        flat = parameter.detach().reshape(-1)
        step = max(1, flat.numel() // SAMPLED)
        values = flat[::step][:SAMPLED].to("cpu", torch.float64)
        whole.update(f"{name} {tuple(parameter.shape)}\n".encode() + values.numpy().tobytes())
    return whole.hexdigest()


def observe_rope(model: Any) -> object:
    """Return the rotary positions in force, read from the live modules, or `none`.

    The frequencies are digested, so that a scaling that was asked for and not built shows.
    """
    found = [m for m in model.modules() if isinstance(getattr(m, "inv_freq", None), Tensor)]
    if not found:
        return "none"
    kinds = sorted({str(getattr(module, "rope_type", "default")) for module in found})
    # Six digits: processors differ in the last bits of a power, and no scaling is that small.
    frequencies = [[float(f"{f:.5e}") for f in module.inv_freq.tolist()] for module in found]
    scaling = [float(getattr(module, "attention_scaling", 1.0)) for module in found]
    settings = getattr(getattr(found[0], "config", None), "rope_parameters", None)
    factor = settings.get("factor") if isinstance(settings, dict) else None
    stated = {"factor": factor} if factor is not None else {}
    return {"kind": "+".join(kinds), **stated, "frequencies": digest_of([frequencies, scaling])}


def observe_changes(backend: TransformersBackend) -> Facts:
    """Return what was changed in a backend's model, `none` where nothing was."""
    changes = backend.changes
    window = {"size": changes["window"], "sinks": changes["sinks"]} if "window" in changes else None
    rounding = {"bits": changes["weight_bits"]} if "weight_bits" in changes else None
    others = {name: value for name, value in changes.items() if name not in _OF_ANOTHER_FIELD}
    return {
        "execution.window": window or "none",
        "execution.weight_rounding": rounding or "none",
        "execution.other_changes": others or "none",
    }


def observe_session(session: TransformersSession) -> Facts:
    """Return what was in force during a session's last call."""
    seen = session.observed
    return {
        "execution.attention": seen["attention"],
        "execution.sdpa_kernels": seen["sdpa"],
        "execution.cache": seen["cache"],
        "execution.kv_cache_dtype": _dtype_of_cache(session._cache),
        "execution.prefill_pieces": seen["prefill_pieces"],
        "execution.batch_rows": seen["rows"],
        "execution.mask": seen["mask"],
    }


def observe_run(backend: TransformersBackend, ids: Sequence[int]) -> Facts:
    """Return everything that a backend has in force, seen while it reads one prompt."""
    session = backend.session(capacity_tokens=len(ids))
    session.next_logits([ids])
    return observe_model(backend.loaded) | observe_changes(backend) | observe_session(session)


def watched(backend: TransformersBackend) -> tuple[TransformersBackend, list[TransformersSession]]:
    """Return a backend that computes the same, and the list that its sessions are kept in."""
    kind = backend.session_kind or TransformersSession
    sessions: list[TransformersSession] = []

    def open_session(**options: Any) -> TransformersSession:
        sessions.append(kind(**options))
        return sessions[-1]

    return replace(backend, session_kind=open_session), sessions


def observe_prompts(texts: Sequence[str], ids: Sequence[Sequence[int]]) -> Facts:
    """Return the digests of prompts as rendered and as token ids."""
    return {
        "identity.rendered_prompts": digest_of(list(texts)),
        "identity.prompt_tokens": digest_of([list(row) for row in ids]),
    }


def _dtype_of_cache(cache: Any) -> str:
    """Return the dtype of the keys that a cache holds, `none` without a cache."""
    layers = getattr(cache, "layers", ())
    kinds = {str(keys.dtype) for layer in layers if (keys := _keys_of(layer)) is not None}
    return "+".join(sorted(kind.removeprefix("torch.") for kind in kinds)) or "none"


def _keys_of(layer: Any) -> Tensor | None:
    keys = getattr(layer, "keys", None)
    return keys if isinstance(keys, Tensor) else None


def _digest_of_tokenizer(tokenizer: Any) -> str:
    """Return a digest of the tokenizer's own file, without the settings that calls leave in it."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is None:
        return digest_of(dict(sorted(tokenizer.get_vocab().items())))
    stored: Mapping[str, object] = json.loads(fast.to_str())
    kept = {key: value for key, value in stored.items() if key not in ("padding", "truncation")}
    return digest_of(kept)


def _digest_of_template(tokenizer: Any) -> str:
    template = getattr(tokenizer, "chat_template", None)
    return digest_of(template) if template else "none"


def _digest_of_defaults(model: Any) -> str:
    """Return a digest of what the model generates with where nothing is asked for."""
    defaults = getattr(model, "generation_config", None)
    if defaults is None:
        return "none"
    settings = defaults.to_diff_dict()
    # Which release wrote the file is no setting.
    return digest_of({k: v for k, v in settings.items() if k != "transformers_version"})
