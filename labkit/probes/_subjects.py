"""The model and prompts that a generation probe asks with: the given one, or a tiny one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.probes._registry import ProbeContext, read_probe_data
from labkit.probes.stand_ins import PAD, random_ids, tiny_llama

if TYPE_CHECKING:
    import torch

NEW_TOKENS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model on its device with a short and a longer prompt as token ids, one row each."""

    model: Any
    short: torch.Tensor
    longer: torch.Tensor
    pad_id: int
    stand_in: str | None

    def generate(self, ids: torch.Tensor, **options: Any) -> Any:
        """Generate greedily, a fixed number of tokens, and return the full output object."""
        import torch

        defaults = {
            "attention_mask": torch.ones_like(ids),
            "do_sample": False,
            "max_new_tokens": NEW_TOKENS,
            "min_new_tokens": NEW_TOKENS,
            "pad_token_id": self.pad_id,
            "return_dict_in_generate": True,
        }
        with torch.inference_mode():
            return self.model.generate(ids, **(defaults | options))

    def new_tokens(self, output: Any, *, prompt_tokens: int, row: int = 0) -> list[int]:
        """Return the generated ids of one row."""
        tokens: list[int] = output.sequences[row, prompt_tokens:].tolist()
        return tokens


def generation_subject(context: ProbeContext) -> Subject:
    """Return the context's own model where it has one, else a tiny random Llama."""
    if context.has_model and context.has_tokenizer:
        return _real_subject(context)
    model = tiny_llama().to(context.device)
    return Subject(
        model=model,
        short=random_ids(5, seed=1).to(context.device),
        longer=random_ids(14, seed=2).to(context.device),
        pad_id=PAD,
        stand_in="a tiny random Llama and random token ids",
    )


def _real_subject(context: ProbeContext) -> Subject:
    tokenizer, model = context.tokenizer(), context.model()
    texts = read_probe_data("texts")

    def encode(text: str) -> torch.Tensor:
        ids: torch.Tensor = tokenizer(text, return_tensors="pt")["input_ids"]
        return ids.to(model.device)

    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    return Subject(
        model=model,
        short=encode(texts["short_prompt"]),
        longer=encode(texts["longer_prompt"]),
        pad_id=int(pad_id),
        stand_in=None,
    )


def cache_of(output: Any) -> Any:
    """Return the cache of a generate output, by whichever name the release gives it."""
    for name in ("cache", "past_key_values"):
        if name in output:
            return output[name]
    return None


def cached_keys(cache: Any) -> Any:
    """Return the keys of a cache's first layer, None where the cache holds none."""
    if getattr(cache, "layers", None):
        return getattr(cache.layers[0], "keys", None)
    if isinstance(cache, tuple):  # releases up to 4.45 hand out a pair a layer
        return cache[0][0]
    # releases up to 4.54 keep one list for all layers
    return next(iter(getattr(cache, "key_cache", None) or ()), None)


def cache_slots(cache: Any) -> int | None:
    """Return how many positions the first layer of a cache has allocated."""
    keys = cached_keys(cache)
    return None if keys is None else int(keys.shape[-2])
