"""Tiny models on disk and in memory, for tests that need a real stack and no real weights."""

from __future__ import annotations

from pathlib import Path

from tokenizers import decoders

from labkit import models
from labkit.backends.transformers import TransformersBackend
from labkit.probes.stand_ins import tiny_gpt2, tiny_llama, tiny_tokenizer


def loaded(*, dtype: str = "float32", model: object = None) -> models.LoadedModel:
    """Return a tiny Llama (or another model) as if it had been loaded."""
    source = models.Source(name="tiny", location="tiny", revision=None, origin="folder")
    made = models.LoadedModel(
        source=source,
        model=model if model is not None else tiny_llama(),
        tokenizer=tokenizer(),
        dtype="float32",
        digest="0" * 64,
    )
    return made if dtype == "float32" else models.cast(made, dtype)


def tokenizer() -> object:
    """Return the tiny tokenizer, able to decode what it encodes."""
    made = tiny_tokenizer()
    made.backend_tokenizer.decoder = decoders.Fuse()
    return made


def backend(*, dtype: str = "float32", model: object = None) -> TransformersBackend:
    """Return a backend over `loaded`."""
    return TransformersBackend(loaded=loaded(dtype=dtype, model=model))


def gpt2_backend() -> TransformersBackend:
    """Return a backend over a tiny GPT-2, whose linears are stored transposed."""
    return backend(model=tiny_gpt2(positions=128))


def save(folder: Path) -> Path:
    """Write a tiny Llama and its tokenizer as a checkpoint folder."""
    tiny_llama().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def prompt_ids(backend: TransformersBackend, *, tokens: int = 24, seed: int = 0) -> list[int]:
    """Return seeded token ids of a tiny model."""
    from labkit.probes.stand_ins import random_ids

    return [int(i) for i in random_ids(tokens, seed=seed)[0]]
