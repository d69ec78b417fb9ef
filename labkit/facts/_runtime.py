"""Facts about the runtime with an architecture, learned by running a tiny twin of the model."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from labkit.facts._capabilities import learn_capabilities, window_hides
from labkit.facts._finding import Finding, find
from labkit.facts._twin import (
    NEW_TOKENS,
    TWIN_PROMPT_TOKENS,
    TWIN_WINDOW,
    Twin,
    logits_of,
    twin_of,
)
from labkit.probes import Attempt, ProbeContext, attempt, run_probe
from labkit.probes._subjects import cache_of, cached_keys
from labkit.probes.libraries import torch_library, transformers_library
from labkit.probes.stand_ins import PAD, random_ids

SLOW_IMPLEMENTATIONS = ("flex_attention",)  # it compiles itself, some fifteen seconds on a CPU
_COMPUTED = ("float32", "bfloat16")
_SAMPLING = (
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "num_beams",
    "max_new_tokens",
    "max_length",
)


def learn_runtime(
    model: Any, device: str, *, thorough: bool = False, attention: Sequence[str] = ()
) -> list[Finding]:
    """Learn what the runtime does with the model's architecture.

    Args:
        model: The model, or None for a tiny Llama in its place.
        device: Where to run, as torch spells it.
        thorough: Whether to try the slow attention implementations as well.
        attention: Further names of attention implementations to try.
    """
    twin = twin_of(model)
    names = [n for n in known_attention() if thorough or n not in SLOW_IMPLEMENTATIONS]
    tried = {n: run_attention(twin, n, device) for n in dict.fromkeys([*names, *attention])}
    ran = [name for name, run in tried.items() if not run.raised]
    return [
        Finding(
            name="attention_implementations",
            value=tuple(ran),
            how=f"ran {twin.of} with each of {', '.join(tried)}{_why_not(tried)}",
        ),
        find(
            "default_attention",
            lambda: str(twin.build().config._attn_implementation),
            how=f"built {twin.of} without naming one",
        ),
        *_learn_softcap(twin, ran),
        *_learn_shape(twin, device),
        *_learn_window(twin, device),
        *_learn_padding(twin, device),
        *(_learn_by_probe(name, device) for name in _BY_PROBE),
        *learn_capabilities(twin, device),
        *_learn_generation(model),
    ]


def known_attention() -> list[str]:
    """Return the implementations that this release registers, eager among them.

    Those of a paged cache are left out: they run inside a scheduler only, not in a plain call.
    """
    listed = importlib.import_module("transformers.modeling_utils").ALL_ATTENTION_FUNCTIONS
    names = [name for name in listed if "|" not in name]
    return sorted({"eager", *names}, key=lambda name: (name != "eager", name != "sdpa", name))


def _why_not(tried: Mapping[str, Attempt[Any]]) -> str:
    """Return what each implementation that did not run said, and which were not tried."""
    refused = [
        f"; {name} raised {run.exception_type}: {run.exception_text[:120]}"
        for name, run in tried.items()
        if run.raised
    ]
    skipped = [name for name in SLOW_IMPLEMENTATIONS if name not in tried]
    return "".join([*refused, *([f"; {', '.join(skipped)} not tried"] if skipped else [])])


def run_attention(twin: Twin, implementation: str, device: str) -> Attempt[Any]:
    """Build the twin with one attention implementation and run a prompt through it."""

    def run() -> Any:
        built = twin.build(attn_implementation=implementation).to(device)
        # FlashAttention has no float32
        dtype = "float16" if implementation.startswith("flash") else "float32"
        logits = logits_of(
            built.to(getattr(torch_library(), dtype)), random_ids(TWIN_PROMPT_TOKENS)
        )
        if built.config._attn_implementation != implementation:
            raise RuntimeError(f"ran {built.config._attn_implementation} instead")
        return logits

    return attempt(run)


def _learn_shape(twin: Twin, device: str) -> list[Finding]:
    return [
        find(
            "head_size_kept",
            lambda: _keeps_head_size(twin, device),
            how=f"doubled head_dim in the config of {twin.of} and compared the width of the keys "
            "in the cache",
        ),
        find(
            "default_cache_dtype",
            lambda: _default_cache_dtype(twin, device),
            how=f"ran {twin.of} in {' and in '.join(_COMPUTED)} without naming a type for the "
            "cache, and read the type of the keys in it",
        ),
    ]


def _keeps_head_size(twin: Twin, device: str) -> bool:
    width = int(_keys_of(twin.build().to(device)).shape[-1])
    return int(_keys_of(twin.build(head_dim=2 * width).to(device)).shape[-1]) == 2 * width


def _default_cache_dtype(twin: Twin, device: str) -> str:
    """Return the type of the keys, `auto` where it follows the computing type."""
    torch = torch_library()
    kept = {
        name: str(_keys_of(twin.build().to(device, getattr(torch, name))).dtype)
        for name in _COMPUTED
    }
    found = {name: dtype.removeprefix("torch.") for name, dtype in kept.items()}
    return "auto" if all(k == v for k, v in found.items()) else found[_COMPUTED[0]]


def _keys_of(model: Any) -> Any:
    """Return the first layer's keys in the cache of a run."""
    with torch_library().inference_mode():
        output = model(random_ids(TWIN_PROMPT_TOKENS).to(model.device), use_cache=True)
    return cached_keys(cache_of(output))


def _learn_softcap(twin: Twin, ran: Sequence[str]) -> list[Finding]:
    if not getattr(twin.config, "attn_logit_softcapping", None):
        return []
    how = f"compared logits of {twin.of} with a soft-cap of 0.1 and with none"
    return [
        find(
            "softcap_implementations",
            lambda: tuple(name for name in ran if _shows_softcap(twin, name)),
            how=how,
        )
    ]


def _shows_softcap(twin: Twin, implementation: str) -> bool:
    ids = random_ids(TWIN_PROMPT_TOKENS)
    capped, free = (
        logits_of(twin.build(attn_implementation=implementation, attn_logit_softcapping=cap), ids)
        for cap in (0.1, None)
    )
    return not bool(torch_library().equal(capped, free))


def _learn_window(twin: Twin, device: str) -> list[Finding]:
    if not getattr(twin.config, "sliding_window", None):
        return []
    how = (
        f"changed the first token of {TWIN_PROMPT_TOKENS} in {twin.of}, all layers windowed to "
        f"{TWIN_WINDOW}, and looked whether the last logits moved"
    )
    return [find("window_supported", lambda: window_hides(twin, device), how=how)]


def _learn_padding(twin: Twin, device: str) -> list[Finding]:
    how = f"compared a padded row of a batch with its run alone, on {twin.of}: padded on the "
    return [
        find(
            name,
            functools.partial(_padded_row_equals_alone, twin, device, side=side),
            how=how + side,
        )
        for name, side in (("positions_from_mask", "left"), ("right_padding_correct", "right"))
    ]


def _padded_row_equals_alone(twin: Twin, device: str, *, side: str) -> bool:
    """Generate from a short row alone and beside a longer one, and compare the new tokens."""
    torch = torch_library()
    model = twin.build().to(device)
    short, longer = random_ids(5, seed=1), random_ids(14, seed=2)
    pads = torch.full_like(longer[:, :9], PAD)
    pair = [pads, short] if side == "left" else [short, pads]
    rows = torch.cat([torch.cat(pair, dim=1), longer])
    mask = torch.cat([(torch.cat(pair, dim=1) != PAD).long(), torch.ones_like(longer)])
    alone = _generate(model, short, torch.ones_like(short))
    batched = _generate(model, rows, mask)
    return bool(torch.equal(alone[0], batched[0]))


def _generate(model: Any, ids: Any, mask: Any) -> Any:
    with torch_library().inference_mode():
        output = model.generate(
            ids.to(model.device),
            attention_mask=mask.to(model.device),
            do_sample=False,
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            pad_token_id=PAD,
        )
    return output[:, ids.shape[1] :]


# Facts that are what a probe finds: whether the stack did what was asked.
_BY_PROBE = {
    "cache_length_honoured": (
        "static_cache_length_ignored",
        "asked for a length in cache_config and counted the positions allocated",
    ),
    "stored_dtype_kept": (
        "checkpoint_dtype_without_asking",
        "saved a tiny float16 model, loaded it without naming a dtype and read its weights'",
    ),
}


def _learn_by_probe(name: str, device: str) -> Finding:
    probe_id, how = _BY_PROBE[name]
    row = run_probe(probe_id, ProbeContext(device=device))
    value = None if row.outcome == "not_askable" else bool(row.did_it)
    return Finding(name=name, value=value, how=how)


def _learn_generation(model: Any) -> list[Finding]:
    options = sorted(
        name
        for name in vars(transformers_library().GenerationConfig())
        if not name.startswith("_") and name != "transformers_version"
    )
    findings = [
        Finding(
            name="generation_options",
            value=tuple(options),
            how="listed the fields of an empty generation config",
        )
    ]
    stated = getattr(model, "generation_config", None)
    if stated is not None:
        values = {name: getattr(stated, name, None) for name in _SAMPLING}
        findings.append(
            Finding(
                name="generation_defaults",
                value={name: value for name, value in values.items() if value is not None},
                how="read from the model's generation config",
            )
        )
    return findings
