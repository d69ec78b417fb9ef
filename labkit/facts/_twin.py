"""A small model of the same architecture, built when a fact is learned by running it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from labkit.probes import attempt
from labkit.probes.libraries import torch_library, transformers_library
from labkit.probes.stand_ins import PAD, VOCABULARY, tiny_llama

TWIN_LAYERS = 2
TWIN_WINDOW = 4
TWIN_PROMPT_TOKENS = 16
NEW_TOKENS = 6


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


def logits_of(model: Any, ids: Any) -> Any:
    """Return a model's logits for token ids, wherever the model lies."""
    with torch_library().inference_mode():
        return model(ids.to(model.device)).logits
