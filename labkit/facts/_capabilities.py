"""Facts about what a runtime can be asked to do, learned by asking and looking for the effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit.facts._finding import Finding, find
from labkit.facts._twin import NEW_TOKENS, TWIN_PROMPT_TOKENS, TWIN_WINDOW, Twin, logits_of
from labkit.probes import attempt
from labkit.probes.libraries import torch_library, transformers_library
from labkit.probes.stand_ins import PAD, VOCABULARY, random_ids, with_token_changed
from labkit.probes.windows import keeps_sinks

# Names under which a bound on the experts is known; none of them may be read.
CAPACITY_NAMES = ("expert_capacity", "expert_capacity_factor", "capacity_factor")
_EXPERT_NAMES = ("num_local_experts", "num_experts", "n_routed_experts")
# Each option with a value at which generation has one possible outcome, so that a run with
# speculation must give the very tokens of a run without.
_DECIDING: Mapping[str, Mapping[str, Any]] = {
    "temperature": {"do_sample": True, "temperature": 1e-4},
    "top_p": {"do_sample": True, "top_p": 1e-6},
    "top_k": {"do_sample": True, "top_k": 1},
    "min_p": {"do_sample": True, "min_p": 1.0},
    "typical_p": {"do_sample": True, "typical_p": 1e-6},
    "repetition_penalty": {"repetition_penalty": 3.0},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 1},
    "min_new_tokens": {"min_new_tokens": NEW_TOKENS},
    "bad_words_ids": {"bad_words_ids": [[token] for token in range(3, VOCABULARY // 2)]},
    "suppress_tokens": {"suppress_tokens": list(range(3, VOCABULARY // 2))},
}
SPECULATIONS = ("prompt_lookup", "assistant_model")


def learn_capabilities(twin: Twin, device: str) -> list[Finding]:
    """Learn which windows, sinks, bounds and options are honoured."""
    return [
        find(
            "window_override_supported",
            lambda: window_hides(twin, device),
            how=f"wrote a window of {TWIN_WINDOW} for all layers into the config of {twin.of}, "
            f"changed the first token of {TWIN_PROMPT_TOKENS} and looked whether the last "
            "logits moved",
        ),
        _learn_sinks(twin, device),
        _learn_capacity(twin, device),
        find(
            "speculation_drops",
            lambda: dropped_options(twin, device),
            how=f"generated with {twin.of}, with {' and with '.join(SPECULATIONS)} and without, "
            f"each of {', '.join(_DECIDING)} set so that one outcome is possible, and compared "
            "the tokens",
        ),
    ]


def window_hides(twin: Twin, device: str) -> bool:
    """Say whether a token outside a window, written into the config, is out of reach."""
    changes: dict[str, Any] = {"sliding_window": TWIN_WINDOW}
    if hasattr(twin.config, "use_sliding_window"):
        changes |= {"use_sliding_window": True, "max_window_layers": 0}
    if isinstance(kinds := getattr(twin.config, "layer_types", None), list):
        changes["layer_types"] = ["sliding_attention"] * len(kinds)
    model = twin.build(**changes).to(device)
    ids = random_ids(TWIN_PROMPT_TOKENS)
    other = with_token_changed(ids, at=0)
    last, moved = logits_of(model, ids)[0, -1], logits_of(model, other)[0, -1]
    return bool(torch_library().equal(last, moved))


def _learn_sinks(twin: Twin, device: str) -> Finding:
    asked = attempt(lambda: keeps_sinks(twin.build().to(device)))
    how = f"asked {twin.of} for a sink cache and looked which tokens stayed in reach"
    if asked.raised:
        how = f"asked {twin.of} for a sink cache, which raised {asked.exception_type}"
    return Finding(name="sinks_supported", value=bool(asked.value), how=how)


def _learn_capacity(twin: Twin, device: str) -> Finding:
    mixed = any(getattr(twin.config, name, None) for name in _EXPERT_NAMES)
    asked = twin if mixed else Twin(config=_tiny_mixtral_config(), of="a tiny Mixtral")
    return find(
        "expert_capacity_supported",
        lambda: _capacity_acts(asked, device),
        how=f"wrote {', '.join(CAPACITY_NAMES)} into the config of {asked.of}, as low as a "
        "bound can be, and looked whether any logit moved",
    )


def _capacity_acts(twin: Twin, device: str) -> bool:
    """Say whether the lowest capacity changes a logit; experts that drop tokens must."""
    ids = random_ids(TWIN_PROMPT_TOKENS)
    free = twin.build().to(device)
    bound = twin.build(**dict.fromkeys(CAPACITY_NAMES, 1)).to(device)
    return not bool(torch_library().equal(logits_of(free, ids), logits_of(bound, ids)))


def _tiny_mixtral_config() -> Any:
    return transformers_library().MixtralConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=256,
        initializer_range=0.5,
    )


def dropped_options(twin: Twin, device: str) -> tuple[str, ...]:
    """Return the options whose outcome under speculation is not their outcome without."""
    model = twin.build().to(device)
    return tuple(
        name for name, options in _DECIDING.items() if not _kept(model, twin, options, device)
    )


def _kept(model: Any, twin: Twin, options: Mapping[str, Any], device: str) -> bool:
    plain = _generate(model, options, {})
    drafts: dict[str, Mapping[str, Any]] = {
        "prompt_lookup": {"prompt_lookup_num_tokens": 3},
        "assistant_model": {"assistant_model": twin.build().to(device)},
    }
    return all(plain == _generate(model, options, drafts[name]) for name in SPECULATIONS)


def _generate(model: Any, options: Mapping[str, Any], drafts: Mapping[str, Any]) -> list[int]:
    torch = torch_library()
    # a prompt that repeats itself, so that a look-up finds something to draft
    ids = torch.cat([random_ids(6, seed=3)] * 3, dim=1).to(model.device)
    settings = {"do_sample": False, "max_new_tokens": NEW_TOKENS, **options, **drafts}
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(0)
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), pad_token_id=PAD, **settings
        )
    new: list[int] = output[0, ids.shape[1] :].tolist()
    return new
