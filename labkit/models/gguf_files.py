"""GGUF files for stacks that read them: the published one, or its weights written out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labkit.errors import ModelError
from labkit.models.catalogue import cache_root
from labkit.models.fetching import fetch_gguf
from labkit.models.sources import Source

WRITTEN = ("float16", "float32")
"""The dtypes in which a file's weights can be written out."""


def find_gguf(source: Source, *, say: Callable[[str], None] = lambda _: None) -> Path:
    """Return the GGUF file that a model's safetensors were converted from.

    Raises:
        ModelError: If there is none, or not exactly one.
    """
    if source.origin == "embedded":
        return fetch_gguf(source.name, say=say)
    found = sorted(Path(source.location).glob("*.gguf")) if source.origin == "folder" else []
    if len(found) != 1:
        raise ModelError(
            "another stack reads the GGUF file that the model came from: a published model, or a "
            f"folder with one *.gguf beside its safetensors; got {source.name}, which has "
            f"{len(found)}."
        )
    return found[0]


def written_out(gguf: Path, *, dtype: str, digest: str) -> Path:
    """Return a GGUF file with the same weights in a plain dtype, written once into the cache.

    Every weight is rounded to float16 first, as the safetensors are, so that both dtypes hold
    the same numbers. Names, order, metadata and tokenizer are the original's.

    Args:
        gguf: The original, of the Llama architecture, whose tensors are those of the
            safetensors with rows in another order.
        dtype: `float16` or `float32`; vectors are float32 in both, as llama.cpp wants them.
        digest: Digest of the original, which names the copy.

    Raises:
        ModelError: If the architecture is another.
    """
    target = cache_root() / "models" / f"{digest[:12]}-{dtype}.gguf"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        _write(gguf, part, dtype=dtype)
        part.replace(target)
    return target


def _write(gguf: Path, target: Path, *, dtype: str) -> None:
    library: Any = importlib.import_module("gguf")
    reader = library.GGUFReader(gguf)
    architecture = reader.get_field("general.architecture").contents()
    if architecture != "llama":
        raise ModelError(
            "weights are written out for the llama architecture only, since others store some "
            f"in another form than the safetensors; got architecture={architecture!r}."
        )
    writer = library.GGUFWriter(target, architecture)
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in _OWN_FIELDS:
            inner = field.types[-1] if field.types[0] == library.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    writer.add_file_type(1 if dtype == "float16" else 0)  # what most of its tensors are
    for tensor in reader.tensors:
        plain = library.quants.dequantize(tensor.data, tensor.tensor_type).astype("float16")
        writer.add_tensor(tensor.name, plain.astype("float32" if plain.ndim == 1 else dtype))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


_OWN_FIELDS = ("general.architecture", "general.file_type", "general.quantization_version")
