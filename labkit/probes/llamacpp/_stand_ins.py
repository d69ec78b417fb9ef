"""Tiny random GGUF files, with any metadata, for questions whose answer needs no real weights."""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WIDTH, HEADS, KEY_HEADS, INNER = 64, 2, 1, 128
POSITIONS = 256
BOS, EOS = 1, 0
STAND_IN = "a tiny random {architecture} file"

Metadata = Mapping[str, Any]


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="labkit-gguf-")


_numbers = itertools.count()


def write_gguf(
    *,
    architecture: str = "llama",
    dtype: str = "float32",
    layers: int = 2,
    positions: int = POSITIONS,
    head_size: int = WIDTH // HEADS,
    template: str | None = None,
    metadata: Metadata | None = None,
) -> Path:
    """Write a random model into a folder that the process removes when it ends.

    Args:
        architecture: `llama`, `gemma2` (attention windows) or `gpt2` (learned positions).
        dtype: Of the matrices, `float32` or `float16`; vectors are float32.
        layers: How many.
        positions: The trained length that the file states.
        head_size: Of queries, keys and values, which `llama` alone may have of its own.
        template: Chat template.
        metadata: Further keys, or others in place of ours; booleans, numbers or texts.
    """
    import gguf

    path = Path(_folder().name) / f"{next(_numbers)}.gguf"
    tokens = _tokens()
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["t h", "h e"])
    stated = _metadata(
        architecture, layers=layers, positions=positions, head_size=head_size, template=template
    )
    for key, value in (stated | dict(metadata or {})).items():
        _add(writer, key, value)
    shapes = _shapes(architecture, layers=layers, positions=positions, head_size=head_size)
    for name, tensor in _tensors(shapes, dtype=dtype):
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def with_unknown_tensor_type(path: Path, *, number: int) -> Path:
    """Write the number of a storage type that no release knows into a copy of a file."""
    import struct

    raw = bytearray(path.read_bytes())
    name = b"token_embd.weight"
    place = raw.index(name) + len(name)
    (dimensions,) = struct.unpack_from("<I", raw, place)
    struct.pack_into("<I", raw, place + 4 + 8 * dimensions, number)
    spoilt = path.with_suffix(".spoilt.gguf")
    spoilt.write_bytes(raw)
    return spoilt


def _tokens() -> list[str]:
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return ["<|endoftext|>", "<s>", "<unk>", *bytes_to_unicode().values(), "th", "he"]


def _add(writer: Any, key: str, value: Any) -> None:
    add = {bool: "add_bool", int: "add_uint32", float: "add_float32", str: "add_string"}
    getattr(writer, add[type(value)])(key, value)


def _metadata(
    architecture: str, *, layers: int, positions: int, head_size: int, template: str | None
) -> dict[str, Any]:
    shape = {
        "context_length": positions,
        "embedding_length": WIDTH,
        "block_count": layers,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": HEADS if architecture == "gpt2" else KEY_HEADS,
        "attention.key_length": head_size,
        "attention.value_length": head_size,
        "rope.dimension_count": head_size,
        "rope.freq_base": 10000.0,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "attention.layer_norm_epsilon": 1e-5,
        "vocab_size": len(_tokens()),
    }
    return {
        "general.name": "tiny",
        **{f"{architecture}.{key}": value for key, value in shape.items()},
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.bos_token_id": BOS,
        "tokenizer.ggml.eos_token_id": EOS,
        "tokenizer.ggml.unknown_token_id": 2,
        **({} if template is None else {"tokenizer.chat_template": template}),
    }


def _tensors(shapes: Mapping[str, tuple[int, ...]], *, dtype: str) -> list[tuple[str, Any]]:
    """Return seeded random tensors by name; matrices in the dtype, vectors in float32."""
    import numpy as np

    draw = np.random.default_rng(0)
    made = []
    for name, shape in shapes.items():
        if len(shape) == 1:
            start = 0.0 if name.endswith("bias") else 1.0
            made.append((name, (start + 0.2 * draw.normal(size=shape)).astype(np.float32)))
        else:
            matrix = draw.normal(size=shape) * 1.5 / np.sqrt(shape[1])
            plain = dtype if name != "position_embd.weight" else "float32"
            made.append((name, matrix.astype(plain)))
    return made


def _shapes(
    architecture: str, *, layers: int, positions: int, head_size: int
) -> dict[str, tuple[int, ...]]:
    whole = {"token_embd.weight": (len(_tokens()), WIDTH), "output_norm.weight": (WIDTH,)}
    if architecture == "gpt2":
        whole |= {"position_embd.weight": (positions, WIDTH), "output_norm.bias": (WIDTH,)}
    block = _gpt2_block() if architecture == "gpt2" else _llama_block(head_size)
    if architecture == "gemma2":
        block |= {"post_attention_norm.weight": (WIDTH,), "post_ffw_norm.weight": (WIDTH,)}
    else:
        whole |= {"output.weight": (len(_tokens()), WIDTH)}
    return whole | {
        f"blk.{i}.{name}": shape for i in range(layers) for name, shape in block.items()
    }


def _llama_block(head_size: int) -> dict[str, tuple[int, ...]]:
    queries, keys = head_size * HEADS, head_size * KEY_HEADS
    return {
        "attn_norm.weight": (WIDTH,),
        "ffn_norm.weight": (WIDTH,),
        "attn_q.weight": (queries, WIDTH),
        "attn_k.weight": (keys, WIDTH),
        "attn_v.weight": (keys, WIDTH),
        "attn_output.weight": (WIDTH, queries),
        "ffn_gate.weight": (INNER, WIDTH),
        "ffn_up.weight": (INNER, WIDTH),
        "ffn_down.weight": (WIDTH, INNER),
    }


def _gpt2_block() -> dict[str, tuple[int, ...]]:
    matrices = {
        "attn_qkv": (3 * WIDTH, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_up": (INNER, WIDTH),
        "ffn_down": (WIDTH, INNER),
    }
    norms = {
        f"{n}.{part}": (WIDTH,) for n in ("attn_norm", "ffn_norm") for part in ("weight", "bias")
    }
    return norms | {
        f"{name}.{part}": shape if part == "weight" else shape[:1]
        for name, shape in matrices.items()
        for part in ("weight", "bias")
    }
