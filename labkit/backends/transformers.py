"""The adapter for Hugging Face transformers.

A `TransformersBackend` is a live model plus the execution options that a runtime chooses.
It is frozen: a knob makes a changed copy with `dataclasses.replace`, and the harness reads
from the session what was really in force.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import Tensor

from labkit.backends import Logits
from labkit.errors import KnobError, NotApplicable
from labkit.models import LoadedModel

Mask = Callable[[Tensor, Tensor], Tensor]
"""Which keys a query may see: `(query_positions, key_positions) -> bool`, broadcast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformersBackend:
    """A loaded model with the options under which it is run.

    Attributes:
        loaded: The model, its tokenizer and its digest.
        prefill_chunk: Tokens a prefill step takes; `None` feeds the prompt at once.
        cache: `dynamic` or `static`.
        sdpa: Names of the SDPA kernels allowed (`math`, …); `None` leaves torch's choice.
        mask: An attention mask imposed by the runtime instead of the library's own.
        session_kind: Makes the session, where an option feeds tokens or keeps the cache in
            another way; `None` makes a `TransformersSession`.
        changes: Model changes made so far, for the manifest.
    """

    loaded: LoadedModel
    prefill_chunk: int | None = None
    cache: str = "dynamic"
    sdpa: str | None = None
    mask: Mask | None = None
    session_kind: Callable[..., TransformersSession] | None = None
    changes: dict[str, object] = field(default_factory=dict)

    @property
    def model(self) -> Any:
        """The live transformers model."""
        return self.loaded.model

    def encode(self, text: str) -> list[int]:
        """See `labkit.backends.Backend.encode`."""
        ids: list[int] = self.loaded.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """See `labkit.backends.Backend.decode`."""
        text: str = self.loaded.tokenizer.decode(list(ids))
        return text

    def session(self, *, capacity_tokens: int) -> TransformersSession:
        """See `labkit.backends.Backend.session`."""
        kind = self.session_kind or TransformersSession
        return kind(backend=self, capacity_tokens=capacity_tokens)

    def next_logits(self, ids: Sequence[int]) -> Logits:
        """See `labkit.backends.Backend.next_logits`."""
        row: Logits = self.session(capacity_tokens=len(ids)).next_logits([ids])[0]
        return row

    def manifest(self) -> dict[str, object]:
        """See `labkit.backends.Backend.manifest`."""
        return {
            "stack": "transformers",
            "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
            "model": self.loaded.source.name,
            "digest": self.loaded.digest,
            "dtype": self.loaded.dtype,
            "device": str(self.model.device),
            "attention": self.model.config._attn_implementation,
            "prefill_chunk": self.prefill_chunk,
            "cache": self.cache,
            "sdpa": self.sdpa,
            "changes": dict(self.changes),
        }


@dataclass(slots=True, kw_only=True)
class TransformersSession:
    """Sequences under extension by a `TransformersBackend`; prompts are padded on the left.

    An option that feeds tokens in another way is a subclass: `_as_batch` starts a session,
    `_new_cache` makes its cache (`None` for no cache), `_forward` feeds one piece, and
    `_inputs` says which mask and positions go with it.
    """

    backend: TransformersBackend
    capacity_tokens: int
    observed: dict[str, object] = field(default_factory=dict)
    _cache: Any = None
    _padding: Tensor | None = None
    _seen: int = 0
    _started: bool = False
    _prompting: bool = True

    def next_logits(self, rows: Sequence[Sequence[int]]) -> Logits:
        """See `labkit.backends.Session.next_logits`."""
        self._prompting = not self._started
        ids = self._as_batch(rows)
        with torch.inference_mode(), _sdpa_kernels(self.backend.sdpa):
            logits = self._feed(ids)
        exact = torch.float64 if logits.dtype == torch.float64 else torch.float32
        answer: Logits = logits.to(exact).cpu().numpy()
        return answer

    def _feed(self, ids: Tensor) -> Tensor:
        chunk = self.backend.prefill_chunk or ids.shape[1]
        for piece in ids.split(chunk, dim=1):
            logits = self._forward(piece)
        return logits

    def _as_batch(self, rows: Sequence[Sequence[int]]) -> Tensor:
        device = self.backend.model.device
        longest = max(len(row) for row in rows)
        if not self._started:
            self._started = True
            _forget_lengths(self.backend.model)
            self._cache = self._new_cache()
            lengths = [len(row) for row in rows]
            if min(lengths) < longest:
                self._padding = torch.tensor([longest - n for n in lengths], device=device)
        padded = [[0] * (longest - len(row)) + list(row) for row in rows]
        return torch.tensor(padded, device=device)

    def _new_cache(self) -> Any:
        config = self.backend.model.config
        if self.backend.cache == "static":
            return transformers.StaticCache(config=config, max_cache_len=self.capacity_tokens)
        return transformers.DynamicCache(config=config)

    def _forward(self, ids: Tensor, *, after: int = 0) -> Tensor:
        """Feed one piece and return the logits that follow it, or `after` tokens before its end.

        Shape `(rows, vocab)`.
        """
        return self._pass(ids, keep=after + 1)[:, 0]

    def _pass(self, ids: Tensor, *, keep: int) -> Tensor:
        """Feed one piece and return the logits after each of its last `keep` tokens.

        Shape `(rows, keep, vocab)`.
        """
        model, start = self.backend.model, self._seen
        self._seen += ids.shape[1]
        inputs = self._inputs(ids, start)
        cached = {} if self._cache is None else {_cache_argument(model): self._cache}
        output = model(
            ids, use_cache=self._cache is not None, logits_to_keep=keep, **cached, **inputs
        )
        self._observe(ids, inputs)
        logits: Tensor = output.logits
        return logits

    def _inputs(self, ids: Tensor, start: int) -> dict[str, Any]:
        """Return the mask and the positions that go with a piece, where the library's won't do."""
        inputs: dict[str, Any] = {}
        if self._padding is not None:
            places = torch.arange(self._seen, device=ids.device)
            real = places >= self._padding[:, None]
            inputs["attention_mask"] = real.long()
            positions = places[start:] - self._padding[:, None]
            inputs["position_ids"] = positions.clamp(min=0)
        if self.backend.mask is not None:
            inputs["attention_mask"] = self._imposed_mask(self.backend.mask, ids, start)
        return inputs

    def _imposed_mask(self, mask: Mask, ids: Tensor, start: int) -> Tensor:
        if self._padding is not None or self.backend.cache != "dynamic":
            raise NotApplicable(
                "an imposed mask needs a dynamic cache and prompts of one length; got "
                f"cache={self.backend.cache!r}, padded={self._padding is not None}."
            )
        own = _shortest_window(self.backend.model)
        if own is not None and self.capacity_tokens > own:
            raise NotApplicable(
                f"an imposed mask would replace the model's own window of {own}, which hides "
                f"something from {self.capacity_tokens} tokens; use fewer."
            )
        keys = torch.arange(self._seen, device=ids.device)
        queries = keys[start:, None]
        seen = (keys <= queries) & mask(queries, keys)
        dtype = self.backend.model.dtype
        additive = torch.zeros(seen.shape, dtype=dtype, device=ids.device)
        additive.masked_fill_(~seen, torch.finfo(dtype).min)
        return additive.expand(ids.shape[0], 1, *seen.shape)

    def _observe(self, ids: Tensor, inputs: dict[str, Any]) -> None:
        mask = inputs.get("attention_mask")
        pieces = _int_list(self.observed.get("prefill_pieces"))
        if self._prompting:
            pieces.append(ids.shape[1])
        self.observed = {
            "attention": self.backend.model.config._attn_implementation,
            "cache": type(self._cache).__name__,
            "dtype": str(self.backend.model.dtype).removeprefix("torch."),
            "mask": "library" if mask is None else ("imposed" if mask.dim() == 4 else "padding"),
            "prefill_pieces": pieces,
            "rows": ids.shape[0],
            "sdpa": _enabled_sdpa(),
        }


def _forget_lengths(model: Any) -> None:
    """Reset dynamic rotary modules, which keep the longest length of the requests before.

    Without it a prompt's logits depend on what the process has served: the frequencies that a
    longer request grew stay until one comes that is shorter than the original length.
    """
    for module in model.modules():
        if getattr(module, "rope_type", None) == "dynamic":
            module.register_buffer("inv_freq", module.original_inv_freq, persistent=False)
            module.max_seq_len_cached = module.original_max_seq_len


def _shortest_window(model: Any) -> int | None:
    """Return the shortest window of a model's layers, or None where each sees everything."""
    layers: list[Any] = list(transformers.DynamicCache(config=model.config).layers)
    windows = [layer.sliding_window for layer in layers if getattr(layer, "is_sliding", False)]
    return min(windows, default=None)


def _int_list(value: object) -> list[int]:
    return [int(item) for item in value] if isinstance(value, list) else []


def _cache_argument(model: Any) -> str:
    # transformers 5.20 renamed the argument; the old name still warns on every call.
    return "cache" if "cache" in _forward_arguments(type(model)) else "past_key_values"


_SIGNATURES: dict[type, frozenset[str]] = {}


def _forward_arguments(kind: type) -> frozenset[str]:
    if kind not in _SIGNATURES:
        _SIGNATURES[kind] = frozenset(inspect.signature(kind.forward).parameters)  # type: ignore[attr-defined]  # every model class has forward
    return _SIGNATURES[kind]


def _sdpa_kernels(name: str | None) -> contextlib.AbstractContextManager[object]:
    if name is None:
        return contextlib.nullcontext()
    if name not in SDPA_KERNELS:
        raise KnobError(f"sdpa kernel must be one of {', '.join(SDPA_KERNELS)}; got {name!r}.")
    context: contextlib.AbstractContextManager[object] = torch.nn.attention.sdpa_kernel(
        torch.nn.attention.SDPBackend.__members__[SDPA_KERNELS[name]]
    )
    return context


SDPA_KERNELS = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
    "cudnn": "CUDNN_ATTENTION",
}
"""Our short names of torch's kernels for scaled dot-product attention."""


def _enabled_sdpa() -> list[str]:
    # The switches hold for every device, whatever the name of the module says.
    enabled = {
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "math": torch.backends.cuda.math_sdp_enabled(),
        "cudnn": torch.backends.cuda.cudnn_sdp_enabled(),
    }
    return [name for name, on in enabled.items() if on]
