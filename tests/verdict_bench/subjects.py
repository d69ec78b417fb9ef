"""The architectures of the verdict benchmark: five tiny random models and the embedded one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from labkit import models
from labkit.experiments._passages import load_passages
from labkit.knobs import Prompt

VOCABULARY = 256
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    # Tied to its input, the output head of a random model repeats the last token.
    "tie_word_embeddings": False,
}
GPT2_SHAPE = {"n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 256}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model to run cases on, and how much of it.

    Attributes:
        name: What the tables call it.
        traits: What cases ask for: `rope`, `learned`, `window`, `softcap`, `qk_norm`, `experts`.
        make: Returns it in float32, its weights exact in float16 and bfloat16.
        prompts: How many prompts it gets.
        prompt_tokens: Tokens of each.
        steps: Tokens generated after each.
    """

    name: str
    traits: frozenset[str]
    make: Callable[[], models.LoadedModel]
    prompts: int = 6
    prompt_tokens: int = 40
    steps: int = 10

    def prompt_list(self, loaded: models.LoadedModel) -> list[Prompt]:
        """Return its prompts: seeded ids for a random model, prose for the embedded one."""
        if loaded.tokenizer is None:
            draw = torch.Generator().manual_seed(1)
            shape = (self.prompts, self.prompt_tokens)
            rows = torch.randint(3, VOCABULARY, shape, generator=draw).tolist()
        else:
            texts = [passage.text for passage in load_passages(self.prompts)]
            rows = [loaded.tokenizer.encode(t)[: self.prompt_tokens] for t in texts]
        return [Prompt(name=f"p{i}", ids=tuple(row)) for i, row in enumerate(rows)]


def on_common_grid(model: Any) -> Any:
    """Round weights, in place, to values that bfloat16 and float16 both hold exactly.

    One set of weights is then the same function at every precision, and what a lane measures
    is its arithmetic.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            rounded = parameter.data.to(torch.bfloat16).to(torch.float16)
            parameter.data = rounded.to(torch.bfloat16).to(torch.float32)
    return model


def tiny_model(kind: str, **config: Any) -> Any:
    """Return a seeded random model of an architecture, no part of which is idle."""
    own = GPT2_SHAPE if kind == "GPT2" else {}
    settings = getattr(transformers, f"{kind}Config")(**SHAPE | own | config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(settings).eval()
        _spread(model)
    return model


def _tiny(kind: str, **config: Any) -> models.LoadedModel:
    model = tiny_model(kind, **config)
    source = models.Source(name=kind, location=kind, revision=None, origin="folder")
    return models.LoadedModel(
        source=source,
        model=on_common_grid(model),
        tokenizer=None,
        dtype="float32",
        digest="0" * 64,
    )


def _spread(model: Any) -> None:
    """Give matrices unit gain and norms some spread, so that every part of the model matters."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() >= 2:
                inner = parameter.shape[-1]
                gain = 1.0 if "embed" in name or "wte" in name else 1.5
                width = 1.0 if "embed" in name or "wte" in name else math.sqrt(inner)
                parameter.normal_(0, gain / width)
            elif "bias" in name:
                parameter.normal_(0, 0.2)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.2)


def _gpt2() -> models.LoadedModel:
    return _tiny("GPT2")


def _llama() -> models.LoadedModel:
    scaling = {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    return _tiny("Llama", rope_parameters=scaling)


def _qwen3() -> models.LoadedModel:
    return _tiny("Qwen3")


def _gemma2() -> models.LoadedModel:
    return _tiny(
        "Gemma2",
        sliding_window=16,
        query_pre_attn_scalar=32,
        attn_logit_softcapping=20.0,
        final_logit_softcapping=15.0,
        attn_implementation="eager",
    )


def _mixtral() -> models.LoadedModel:
    # The grouped product, the library's default, does not exist in float64.
    return _tiny(
        "Mixtral", num_local_experts=4, num_experts_per_tok=2, experts_implementation="eager"
    )


def _embedded() -> models.LoadedModel:
    loaded = models.cast(models.load(), "float32")
    on_common_grid(loaded.model)
    return loaded


SUBJECTS = (
    Subject(name="GPT-2", traits=frozenset({"learned", "tiny"}), make=_gpt2),
    Subject(name="Llama, llama3 RoPE", traits=frozenset({"rope", "tiny"}), make=_llama),
    Subject(name="Qwen3", traits=frozenset({"rope", "qk_norm", "tiny"}), make=_qwen3),
    Subject(
        name="Gemma-2, window and soft-caps",
        traits=frozenset({"rope", "window", "softcap", "tiny"}),
        make=_gemma2,
    ),
    Subject(name="Mixtral", traits=frozenset({"rope", "experts", "tiny"}), make=_mixtral),
    Subject(
        name="SmolLM2-135M",
        traits=frozenset({"rope"}),
        make=_embedded,
        # Reading a prompt in 16 bits is what costs on a CPU, so its prompts are short.
        prompts=3,
        prompt_tokens=16,
        steps=3,
    ),
)
