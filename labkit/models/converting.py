"""Converting a GGUF file to plain safetensors."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Write a GGUF file's weights as plain float16 safetensors, with its tokenizer.

    A GGUF-loaded model counts as quantised, so casting and saving it are refused; its state
    is therefore copied into a plain model of the same architecture.
    """
    import torch
    import transformers

    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    with quiet_transformers():
        loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
            **where, dtype=torch.float16
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
        settings = loaded.config.to_dict()
        for key in ("quantization_config", "_model_name_or_path", "_name_or_path"):
            settings.pop(key, None)
        plain: Any = type(loaded)(type(loaded.config).from_dict(settings)).to(torch.float16)
        plain.config.dtype = torch.float16
        plain.load_state_dict(loaded.state_dict(), strict=True)
        plain.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' progress bars and advice while a model is loaded or converted."""
    logging = importlib.import_module("transformers.utils.logging")
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def safetensors_error() -> type[Exception]:
    """Return the error that safetensors raises for a file it cannot read or write."""
    error: type[Exception] = importlib.import_module("safetensors").SafetensorError
    return error
