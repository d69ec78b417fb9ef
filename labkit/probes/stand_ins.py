"""Tiny random models and a tiny tokenizer, for probes whose answer does not depend on weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.probes.libraries import transformers_library

if TYPE_CHECKING:
    import torch

VOCABULARY = 100  # the tiny tokenizer: four specials, a line break, printable ASCII
PAD, BOS, EOS = 0, 1, 2


def tiny_llama(*, positions: int = 256, seed: int = 0, **changes: Any) -> Any:
    """Return a two-layer Llama with grouped heads and random weights large enough to disagree."""
    config = tiny_llama_config(positions=positions, **changes)
    return _seeded(transformers_library().LlamaForCausalLM, config, seed=seed)


def tiny_llama_config(*, positions: int = 256, **changes: Any) -> Any:
    """Return the tiny Llama's config, not yet used by any model."""
    return transformers_library().LlamaConfig(**(_llama_shape(positions) | changes))


def _llama_shape(positions: int) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": positions,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        # The default spread of 0.02 leaves a tiny model saying one token whatever it reads.
        "initializer_range": 0.5,
    }


def tiny_mistral(*, positions: int = 256, seed: int = 0, **changes: Any) -> Any:
    """Return the tiny Llama's shape in an architecture that has attention windows."""
    library = transformers_library()
    config = library.MistralConfig(**(_llama_shape(positions) | changes))
    return _seeded(library.MistralForCausalLM, config, seed=seed)


def tiny_gpt2(*, positions: int = 1024, seed: int = 0) -> Any:
    """Return a one-layer GPT-2 with learned positions and random weights."""
    library = transformers_library()
    config = library.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=16,
        n_layer=1,
        n_head=2,
        n_positions=positions,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    return _seeded(library.GPT2LMHeadModel, config, seed=seed)


def _seeded(model_class: Any, config: Any, *, seed: int) -> Any:
    """Build a model from a seed without moving the caller's random state."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model_class(config).eval()


def random_ids(count: int, *, seed: int = 0) -> torch.Tensor:
    """Return one row of seeded token ids, none of them special."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randint(EOS + 1, VOCABULARY, (1, count), generator=generator)


def with_token_changed(ids: torch.Tensor, *, at: int) -> torch.Tensor:
    """Return the ids with one of them replaced by another that is not special."""
    other = ids.clone()
    other[0, at] = ids[0, at] % (VOCABULARY - 4) + 3
    return other


def tiny_tokenizer(
    *,
    chat_template: str | None = None,
    max_length: int | None = None,
    writes_bos: bool = False,
) -> Any:
    """Return a tokenizer over single characters, with a template only where one is given."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from tokenizers.processors import TemplateProcessing

    characters = "\n" + "".join(chr(code) for code in range(32, 127))
    words = ["<pad>", "<s>", "</s>", "<unk>", *characters]
    core = Tokenizer(WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = Split(Regex(r"[\s\S]"), behavior="isolated")
    if writes_bos:
        core.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    options: dict[str, Any] = {} if max_length is None else {"model_max_length": max_length}
    tokenizer = transformers_library().PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        **options,
    )
    tokenizer.chat_template = chat_template
    return tokenizer
