"""Loading a model and its tokenizer, in a dtype, with the digest of its files.

Remote code is never trusted and pickle files are never loaded, whatever the source.
"""

from __future__ import annotations

import copy
import gc
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labkit.errors import ModelError
from labkit.files import load_json_strict, sha256_of
from labkit.models.converting import quiet_transformers, safetensors_error
from labkit.models.fetching import fetch
from labkit.models.sources import Source, resolve

DTYPES = ("float16", "bfloat16", "float32", "float64")

IDENTIFYING = (
    "*.safetensors",
    "*.json",
    "*.model",
    "merges.txt",
    "vocab.txt",
    "chat_template*",
)
"""The files of a checkpoint folder that its digest covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A causal language model with its tokenizer, and what identifies them.

    Attributes:
        source: Where it came from.
        model: The live `transformers` model, in evaluation mode.
        tokenizer: Its tokenizer.
        dtype: Name of the dtype of its parameters.
        digest: SHA-256 over the digests of weights, config and tokenizer files; for a hub
            model, over its id and commit, which name those files.
        files: What the digest is made of, by name.
        positions: The positions it was made for; `None` where its config does not say.
    """

    source: Source
    model: Any
    tokenizer: Any
    dtype: str
    digest: str
    files: dict[str, str] = field(default_factory=dict)
    positions: int | None = None


def load(
    model: str = "embedded",
    *,
    dtype: str = "float16",
    device: str = "cpu",
    revision: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> LoadedModel:
    """Load a model and its tokenizer, from safetensors only and without remote code.

    Args:
        model: `embedded`, a local folder, or a hub id.
        dtype: One of `DTYPES`; the parameters are cast to it on loading.
        device: A torch device.
        revision: Required for a hub id.
        say: Receives one line a step (fetching the embedded model, for one).

    Raises:
        ModelError: If the source, the dtype or the device cannot be had.
    """
    described = describe(model, dtype=dtype, device=device, revision=revision, say=say)
    live = _load_live(described.source, dtype=dtype)
    return replace(described, model=live.to(device).eval())


def describe(
    model: str = "embedded",
    *,
    dtype: str = "float16",
    device: str = "cpu",
    revision: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> LoadedModel:
    """Return what `load` returns, without the weights: what it is, and not yet the thing.

    Raises:
        ModelError: As `load` does.
    """
    if dtype not in DTYPES:
        raise ModelError(f"dtype must be one of {', '.join(DTYPES)}; got dtype={dtype!r}.")
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(f"device={device!r} needs a CUDA device, and torch sees none here.")
    source = resolve(model, revision=revision)
    if source.origin == "embedded":
        fetch(source.name, say=say)
    files = _file_digests(source)
    tokenizer = _from_source(_tokenizer_class(source), source)
    return LoadedModel(
        source=source,
        model=None,
        tokenizer=tokenizer,
        dtype=dtype,
        digest=_digest_of(files),
        files=files,
        positions=_positions(source),
    )


def _tokenizer_class(source: Source) -> Any:
    """Return what reads a model's tokenizer, without a look at its config where that can be.

    The library's Auto classes import most of it, for which a finished run need not wait.
    The lab's own conversion names the tokenizer's class, and its digests vouch for the file.
    """
    import transformers

    if source.origin == "embedded":
        stated = _read_json(source, "tokenizer_config.json").get("tokenizer_class")
        if stated == transformers.PreTrainedTokenizerFast.__name__:
            return transformers.PreTrainedTokenizerFast
    return transformers.AutoTokenizer


def _positions(source: Source) -> int | None:
    """Return the positions that a model was made for, its class's own where it states none."""
    import transformers

    if source.origin == "embedded":
        stated = _read_json(source, "config.json").get("max_position_embeddings")
        if isinstance(stated, int):
            return stated
    config = _from_source(transformers.AutoConfig, source)
    found: int | None = getattr(config, "max_position_embeddings", None)
    return found


def _read_json(source: Source, name: str) -> dict[str, Any]:
    found: dict[str, Any] = load_json_strict(
        Path(source.location) / name,
        what="A converted model's file",
        error=ModelError,
        remedy=f"Run `labkit models remove {source.name}` and `labkit models fetch {source.name}`.",
    )
    return found


def _load_live(source: Source, *, dtype: str) -> Any:
    import torch
    import transformers

    live, report = _from_source(
        transformers.AutoModelForCausalLM,
        source,
        dtype=getattr(torch, dtype),
        use_safetensors=True,
        output_loading_info=True,
    )
    _require_every_weight(source, report)
    return live


def _from_source(kind: Any, source: Source, **options: Any) -> Any:
    """Read a part of a model with one of the library's Auto classes, trusting no code of its own.

    Raises:
        ModelError: If it cannot be read.
    """
    hub = source.origin == "hub"
    where: dict[str, Any] = {"revision": source.revision} if hub else {"local_files_only": True}
    try:
        with quiet_transformers():
            return kind.from_pretrained(
                source.location, trust_remote_code=False, **where, **options
            )
    except (OSError, ValueError, KeyError, ImportError, safetensors_error()) as problem:
        reason = " ".join(str(problem).split())[:300]
        raise ModelError(
            f"could not load {source.name!r} ({source.origin}): {reason} Check the name, the "
            "revision and that it holds a causal language model in safetensors."
        ) from problem


def _require_every_weight(source: Source, report: dict[str, Any]) -> None:
    """Refuse a checkpoint with missing or ill-shaped weights, which would be filled at random."""
    absent = sorted(map(str, report.get("missing_keys", ())))
    shaped = sorted(str(key) for key in report.get("mismatched_keys", ()))
    if absent or shaped:
        named = ", ".join([*absent, *shaped][:3])
        raise ModelError(
            f"a checkpoint must hold every weight of its model; {source.name} lacks "
            f"{len(absent)} and has {len(shaped)} of another shape, such as {named}. Random "
            "numbers would stand in for them; get the checkpoint again."
        )


def cast(loaded: LoadedModel, dtype: str) -> LoadedModel:
    """Return a copy of a loaded model with its parameters in another dtype.

    Buffers keep theirs: the rotary frequencies are float32 at every parameter dtype, and
    rounding them would change the function.
    """
    import torch

    live = copy.deepcopy(loaded.model)
    for parameter in live.parameters():
        parameter.data = parameter.data.to(getattr(torch, dtype))
    return replace(loaded, model=live, dtype=dtype)


def altered_by_cast(loaded: LoadedModel, dtype: str) -> tuple[int, int]:
    """Return how many stored weights a cast to `dtype` alters, and how many there are."""
    import torch

    target = getattr(torch, dtype)
    altered = total = 0
    for parameter in loaded.model.parameters():
        back = parameter.data.to(target).to(parameter.dtype)
        altered += int((back != parameter.data).sum())
        total += parameter.numel()
    return altered, total


def release() -> None:
    """Give memory of dropped models back before the next one is loaded."""
    import torch

    gc.collect()

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


# ---- digests ----------------------------------------------------------------------------


def _file_digests(source: Source) -> dict[str, str]:
    if source.origin == "hub":
        return {"hub": hashlib.sha256(f"{source.location}@{source.revision}".encode()).hexdigest()}
    folder = Path(source.location)
    paths = sorted({path for pattern in IDENTIFYING for path in folder.glob(pattern)})
    found = {path.name: sha256_of(path) for path in paths if path.name != "digests.json"}
    if source.origin == "embedded":
        _require_unchanged(source, found)
    return found


def _require_unchanged(source: Source, found: dict[str, str]) -> None:
    stored = json.loads((Path(source.location) / "digests.json").read_text(encoding="utf-8"))
    changed = sorted(name for name, digest in stored.items() if found.get(name) != digest)
    if changed:
        raise ModelError(
            f"the converted files of {source.name!r} must be as they were written; changed or "
            f"missing: {', '.join(changed)}. Run `labkit models remove {source.name}` and "
            f"`labkit models fetch {source.name}`."
        )


def _digest_of(files: dict[str, str]) -> str:
    whole = hashlib.sha256()
    for name, digest in sorted(files.items()):
        whole.update(f"{name}:{digest}\n".encode())
    return whole.hexdigest()
