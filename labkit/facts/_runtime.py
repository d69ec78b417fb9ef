"""Facts about the runtime with an architecture, learned by running a tiny twin of the model."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.facts._finding import Finding, find
from labkit.probes import Attempt, ProbeContext, attempt, run_probe
from labkit.probes.libraries import torch_library, transformers_library
from labkit.probes.stand_ins import PAD, VOCABULARY, random_ids, tiny_llama

QUICK_IMPLEMENTATIONS = ("eager", "sdpa", "flash_attention_2")
SLOW_IMPLEMENTATIONS = ("flex_attention",)  # it compiles itself, some fifteen seconds on a CPU
TWIN_LAYERS = 2
TWIN_WINDOW = 4
TWIN_PROMPT_TOKENS = 16
NEW_TOKENS = 6
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """The config of a small model of the same architecture, and whose it is."""

    config: Any
    of: str

    def build(self, **changes: Any) -> Any:
        """Return a seeded twin with attributes of its config changed."""
        torch, library = torch_library(), transformers_library()
        config = copy.deepcopy(self.config)
        implementation = changes.pop("attn_implementation", None)
        for name, value in changes.items():
            setattr(config, name, value)
        options = {} if implementation is None else {"attn_implementation": implementation}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return library.AutoModelForCausalLM.from_config(config, **options).eval()


def twin_of(model: Any) -> Twin:
    """Return a small twin of a model's architecture, or of Llama where none can be made."""
    if model is None:
        return Twin(config=tiny_llama().config, of="a tiny Llama")
    config = copy.deepcopy(model.config.get_text_config(decoder=True))
    layers = min(TWIN_LAYERS, int(getattr(config, "num_hidden_layers", TWIN_LAYERS)))
    if isinstance(kinds := getattr(config, "layer_types", None), list):
        config.layer_types = kinds[:layers]
    changes = {
        "num_hidden_layers": layers,
        "vocab_size": VOCABULARY,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": PAD,
        "quantization_config": None,
        "dtype": "float32",
        "initializer_range": 0.5,
    }
    for name, value in changes.items():
        if hasattr(config, name):
            setattr(config, name, value)
    if getattr(config, "quantization_config", 0) is None:
        del config.quantization_config
    config._attn_implementation = None
    twin = Twin(config=config, of=f"a {layers}-layer twin of {config.model_type}")
    built = attempt(twin.build)
    if built.raised:
        return Twin(config=tiny_llama().config, of="a tiny Llama, a twin could not be built")
    return twin


def learn_runtime(model: Any, device: str, *, thorough: bool = False) -> list[Finding]:
    """Learn what the runtime does with the model's architecture."""
    twin = twin_of(model)
    names = QUICK_IMPLEMENTATIONS + (SLOW_IMPLEMENTATIONS if thorough else ())
    ran = [name for name in names if not run_attention(twin, name, device).raised]
    skipped = "" if thorough else f"; {', '.join(SLOW_IMPLEMENTATIONS)} not tried"
    return [
        Finding(
            name="attention_implementations",
            value=tuple(ran),
            how=f"ran {twin.of} with each of {', '.join(names)}{skipped}",
        ),
        find(
            "default_attention",
            lambda: str(twin.build().config._attn_implementation),
            how=f"built {twin.of} without naming one",
        ),
        *_learn_softcap(twin, ran),
        *_learn_window(twin),
        *_learn_padding(twin, device),
        _learn_cache_length(device),
        *_learn_generation(model),
    ]


def run_attention(twin: Twin, implementation: str, device: str) -> Attempt[Any]:
    """Build the twin with one attention implementation and run a prompt through it."""

    def run() -> Any:
        built = twin.build(attn_implementation=implementation).to(device)
        # FlashAttention has no float32
        dtype = "float16" if implementation.startswith("flash") else "float32"
        logits = _logits(built.to(getattr(torch_library(), dtype)), random_ids(TWIN_PROMPT_TOKENS))
        if built.config._attn_implementation != implementation:
            raise RuntimeError(f"ran {built.config._attn_implementation} instead")
        return logits

    return attempt(run)


def _logits(model: Any, ids: Any) -> Any:
    with torch_library().inference_mode():
        return model(ids.to(model.device)).logits


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
        _logits(twin.build(attn_implementation=implementation, attn_logit_softcapping=cap), ids)
        for cap in (0.1, None)
    )
    return not bool(torch_library().equal(capped, free))


def _learn_window(twin: Twin) -> list[Finding]:
    if not getattr(twin.config, "sliding_window", None):
        return []
    how = (
        f"changed the first token of {TWIN_PROMPT_TOKENS} in {twin.of}, all layers windowed to "
        f"{TWIN_WINDOW}, and looked whether the last logits moved"
    )
    return [find("window_supported", lambda: _window_hides(twin), how=how)]


def _window_hides(twin: Twin) -> bool:
    """Say whether a token outside the window of every layer is out of reach."""
    changes: dict[str, Any] = {"sliding_window": TWIN_WINDOW}
    if hasattr(twin.config, "use_sliding_window"):
        changes |= {"use_sliding_window": True, "max_window_layers": 0}
    if isinstance(kinds := getattr(twin.config, "layer_types", None), list):
        changes["layer_types"] = ["sliding_attention"] * len(kinds)
    model = twin.build(**changes)
    ids = random_ids(TWIN_PROMPT_TOKENS)
    other = ids.clone()
    other[0, 0] = ids[0, 0] % (VOCABULARY - 4) + 3
    return bool(torch_library().equal(_logits(model, ids)[0, -1], _logits(model, other)[0, -1]))


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


def _learn_cache_length(device: str) -> Finding:
    row = run_probe("static_cache_length_ignored", ProbeContext(device=device))
    return Finding(
        name="cache_length_honoured",
        value=None if row.outcome == "not_askable" else bool(row.did_it),
        how="asked for a length in cache_config and counted the positions allocated",
    )


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
