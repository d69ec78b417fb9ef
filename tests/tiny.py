"""Tiny models on disk and in memory, for tests that need a real stack and no real weights."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest
from tokenizers import decoders

from labkit import models
from labkit.backends.llamacpp import LlamaCppBackend
from labkit.backends.llamacpp_stack import open_beside
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


@functools.cache
def llamacpp_backend() -> LlamaCppBackend:
    """Return llama.cpp over a tiny random Llama's plain float32 file."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: make llamacpp")
    scratch = Path(tempfile.mkdtemp())
    made = models.load(str(save_gguf(scratch / "tiny")), dtype="float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_CACHE", str(scratch / "cache"))
        return open_beside(made, weights="float32")


def save(folder: Path) -> Path:
    """Write a tiny Llama and its tokenizer as a checkpoint folder."""
    tiny_llama().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def prompt_ids(backend: TransformersBackend, *, tokens: int = 24, seed: int = 0) -> list[int]:
    """Return seeded token ids of a tiny model."""
    from labkit.probes.stand_ins import random_ids

    return [int(i) for i in random_ids(tokens, seed=seed)[0]]


def save_gguf(folder: Path) -> Path:
    """Write a tiny random Llama as an 8-bit GGUF file, and what the lab converts it to beside."""
    import gguf
    import numpy as np
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    from labkit.models.converting import convert_gguf

    letters = list(bytes_to_unicode().values())
    tokens = ["<|endoftext|>", "<s>", "<unk>", *letters, "th", "he", "Ġt"]
    writer = gguf.GGUFWriter(folder.parent / "tiny.gguf", "llama")
    writer.add_name("tiny")
    writer.add_context_length(256)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    writer.add_feed_forward_length(128)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(32)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["t h", "h e", "Ġ t"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_unk_token_id(2)
    draw = np.random.default_rng(0)
    kind = gguf.GGMLQuantizationType.Q8_0
    shapes = {"attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64)}
    shapes |= {"ffn_gate": (128, 64), "ffn_up": (128, 64), "ffn_down": (64, 128)}
    named = {f"blk.{i}.{name}.weight": shape for i in range(2) for name, shape in shapes.items()}
    named |= {"token_embd.weight": (len(tokens), 64), "output.weight": (len(tokens), 64)}
    for name, shape in named.items():
        weights = draw.normal(size=shape).astype(np.float32) * 1.5 / np.sqrt(shape[1])
        writer.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)
    norms = [f"blk.{i}.{name}.weight" for i in range(2) for name in ("attn_norm", "ffn_norm")]
    for name in [*norms, "output_norm.weight"]:
        writer.add_tensor(name, (1 + 0.2 * draw.normal(size=64)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    convert_gguf(folder.parent / "tiny.gguf", folder)
    (folder.parent / "tiny.gguf").rename(folder / "tiny.gguf")
    return folder
