"""Defects planted on purpose, of the kinds that inference stacks have had."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from labkit.backends.transformers import TransformersBackend, TransformersSession
from labkit.knobs.layers import _rerouted
from verdict_bench.cases import DEFECT, case, changed, hooked, rewritten

Backends = Iterator[TransformersBackend]


# ---- what the architectures call their parts ---------------------------------------------


def layers(model: Any) -> list[Any]:
    """Return the decoder's layers."""
    return list(model.transformer.h if hasattr(model, "transformer") else model.model.layers)


def attention(layer: Any) -> Any:
    """Return a layer's attention."""
    return layer.attn if hasattr(layer, "attn") else layer.self_attn


# ---- attention ---------------------------------------------------------------------------


@contextlib.contextmanager
def _scaled(model: Any, factor: float, *, only: int | None = None) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for index, layer in enumerate(layers(model)):
            if only is None or index == only:
                part = attention(layer)
                stack.enter_context(changed(part, "scaling", part.scaling * factor))
        yield


@case(DEFECT, "attention scale 1 % too large")
def scale_1_percent(backend: TransformersBackend) -> Backends:
    """The scale of all scores is wrong by a hundredth."""
    with _scaled(backend.model, 1.01):
        yield backend


@case(DEFECT, "attention scale 0.1 % too large")
def scale_1_permille(backend: TransformersBackend) -> Backends:
    """The scale of all scores is wrong by a thousandth."""
    with _scaled(backend.model, 1.001):
        yield backend


@case(DEFECT, "attention scale 0.1 % too large in one layer")
def scale_one_layer(backend: TransformersBackend) -> Backends:
    """The scale of one layer's scores is wrong by a thousandth."""
    with _scaled(backend.model, 1.001, only=1):
        yield backend


@case(DEFECT, "attention scale wrong by 1e-5")
def scale_tiny(backend: TransformersBackend) -> Backends:
    """The scale of all scores is wrong in the sixth digit, as a constant typed too short is."""
    with _scaled(backend.model, 1 + 1e-5):
        yield backend


@case(DEFECT, "attention soft-cap lost", needs={"softcap"})
def lost_softcap(backend: TransformersBackend) -> Backends:
    """Scores are not capped."""
    with contextlib.ExitStack() as stack:
        for layer in layers(backend.model):
            stack.enter_context(changed(attention(layer), "attn_logit_softcapping", None))
        yield backend


@case(DEFECT, "final soft-cap lost", needs={"softcap"})
def lost_final_softcap(backend: TransformersBackend) -> Backends:
    """Logits are not capped: every greedy token stays."""
    with changed(backend.model.config, "final_logit_softcapping", None):
        yield backend


@case(DEFECT, "window one token too long", needs={"window"})
def long_window(backend: TransformersBackend) -> Backends:
    """The sliding layers see one token more."""
    size = backend.model.config.sliding_window
    with changed(backend.model.config, "sliding_window", size + 1):
        yield backend


@case(DEFECT, "KV heads swapped in one layer", spares={"learned"})
def swapped_heads(backend: TransformersBackend) -> Backends:
    """Values of one layer go to the other group's queries."""
    part = attention(layers(backend.model)[1])
    with rewritten(part.v_proj.weight, lambda w: w.roll(part.head_dim, dims=0)):
        yield backend


@case(DEFECT, "query norm skipped", needs={"qk_norm"})
def skipped_norm(backend: TransformersBackend) -> Backends:
    """One layer's queries are normalised without their weights."""
    norm = attention(layers(backend.model)[1]).q_norm
    with rewritten(norm.weight, torch.ones_like):
        yield backend


# ---- masks and positions -----------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Masked(TransformersSession):
    """A session whose 2-D mask hides one place from everyone.

    A negative place counts from the end of the prompt.
    """

    hidden: int
    _prompt: int = 0

    def _inputs(self, ids: Tensor, start: int) -> dict[str, Any]:
        inputs = TransformersSession._inputs(self, ids, start)
        mask = inputs.get("attention_mask", torch.ones(ids.shape[0], self._seen, dtype=torch.long))
        self._prompt = self._prompt or self._seen
        mask[:, self.hidden + (self._prompt if self.hidden < 0 else 0)] = 0
        places = torch.arange(start, self._seen).expand(ids.shape[0], -1)
        return {"position_ids": places} | inputs | {"attention_mask": mask}


@case(DEFECT, "mask hides the first token")
def hidden_first(backend: TransformersBackend) -> Backends:
    """The mask begins one place too late."""
    yield replace(backend, session_kind=functools.partial(Masked, hidden=0))


@case(DEFECT, "mask hides one token in the middle")
def hidden_middle(backend: TransformersBackend) -> Backends:
    """One place that is near enough for every window is hidden."""
    yield replace(backend, session_kind=functools.partial(Masked, hidden=-12))


@case(DEFECT, "each token misses its predecessor", spares={"window"})
def missing_newest(backend: TransformersBackend) -> Backends:
    """The mask is too short by the newest cached token."""
    yield replace(backend, mask=lambda queries, keys: keys != queries - 1)


@dataclass(slots=True, kw_only=True)
class Leaking(TransformersSession):
    """A session whose prompt looks one token ahead."""

    def _inputs(self, ids: Tensor, start: int) -> dict[str, Any]:
        keys = torch.arange(self._seen)
        seen = keys <= keys[start:, None] + 1
        dtype = self.backend.model.dtype
        additive = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)
        return {"attention_mask": additive.expand(ids.shape[0], 1, *seen.shape)}


@case(DEFECT, "causal mask leaks one token", spares={"window"})
def leaking_mask(backend: TransformersBackend) -> Backends:
    """Within the prompt each token sees the next."""
    yield replace(backend, session_kind=Leaking)


@dataclass(slots=True, kw_only=True)
class Misplaced(TransformersSession):
    """A session whose positions are off from a place on."""

    after: int
    by: int
    until: int = 10**6

    def _inputs(self, ids: Tensor, start: int) -> dict[str, Any]:
        places = torch.arange(start, self._seen)
        wrong = (places >= self.after) & (places < self.until)
        return {"position_ids": (places + self.by * wrong).expand(ids.shape[0], -1)}


@case(DEFECT, "position off by one after a chunk boundary")
def misplaced_chunk(backend: TransformersBackend) -> Backends:
    """From the second chunk on each position is one too high."""
    session = functools.partial(Misplaced, after=16, by=1)
    yield replace(backend, prefill_chunk=16, session_kind=session)


@dataclass(slots=True, kw_only=True)
class Stuck(TransformersSession):
    """A session in which the first generated token gets the last prompt token's position."""

    _prompt: int = 0

    def _inputs(self, ids: Tensor, start: int) -> dict[str, Any]:
        self._prompt = self._prompt or self._seen
        places = torch.arange(start, self._seen)
        return {"position_ids": (places - (places >= self._prompt).long()).expand(len(ids), -1)}


@case(DEFECT, "decoding starts one position too early")
def stuck_position(backend: TransformersBackend) -> Backends:
    """Every generated token stands one position too low; the prompt is right."""
    yield replace(backend, session_kind=Stuck)


@contextlib.contextmanager
def _base_off(model: Any, relative: float) -> Iterator[None]:
    rotary = model.model.rotary_emb
    count = rotary.inv_freq.shape[0]
    # A base times (1 + r) divides frequency i by (1 + r) ** (i / count).
    factors = (1 + relative) ** (-torch.arange(count, dtype=torch.float64) / count)
    wrong = (rotary.inv_freq.double() * factors).to(rotary.inv_freq.dtype)
    with rewritten(rotary.inv_freq, lambda _: wrong):
        yield


def _rope_case(relative: float, words: str) -> None:
    @case(DEFECT, f"RoPE base {words}", needs={"rope"})
    def base_off(backend: TransformersBackend) -> Backends:
        """The rotation's base is slightly off."""
        with _base_off(backend.model, relative):
            yield backend


_rope_case(1e-2, "1 % too large")
_rope_case(1e-3, "0.1 % too large")
_rope_case(1e-5, "wrong by 1e-5")
_rope_case(1e-7, "wrong by 1e-7")


# ---- the cache ---------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Tampered(TransformersSession):
    """A session whose cache is spoilt once the prompt is in it."""

    spoil: Callable[[Any], None]

    def _feed(self, ids: Tensor) -> Tensor:
        first = self._seen == 0
        logits = TransformersSession._feed(self, ids)
        if first:
            self.spoil(self._cache)
        return logits


PLACE = -5  # near enough to the end for every window


def _zero_value(cache: Any) -> None:
    cache.layers[1].values[:, :, PLACE] = 0


def _zero_key(cache: Any) -> None:
    cache.layers[1].keys[:, :, PLACE] = 0


def _stale(cache: Any) -> None:
    for layer in cache.layers:
        layer.keys[:, :, PLACE] = layer.keys[:, :, PLACE - 1].clone()
        layer.values[:, :, PLACE] = layer.values[:, :, PLACE - 1].clone()


def _swap_entries(cache: Any) -> None:
    layer = cache.layers[0]
    kept = layer.values[:, :, PLACE].clone()
    layer.values[:, :, PLACE] = layer.values[:, :, PLACE - 1]
    layer.values[:, :, PLACE - 1] = kept


def _one_head_stale(cache: Any) -> None:
    layer = cache.layers[2]
    layer.keys[:, 0, PLACE] = layer.keys[:, 0, PLACE - 1].clone()


def _cache_case(spoil: Callable[[Any], None], words: str) -> None:
    @case(DEFECT, words)
    def spoilt(backend: TransformersBackend) -> Backends:
        """An entry of the cache is not what was computed for it."""
        yield replace(backend, session_kind=functools.partial(Tampered, spoil=spoil))


_cache_case(_zero_value, "one value vector of the cache zeroed")
_cache_case(_zero_key, "one key vector of the cache zeroed")
_cache_case(_stale, "one cache entry stale in all layers")
_cache_case(_swap_entries, "two values of one layer swapped")
_cache_case(_one_head_stale, "one key of one head stale")


@dataclass(slots=True, kw_only=True)
class FedTwice(TransformersSession):
    """A session that feeds the last prompt token twice."""

    def _feed(self, ids: Tensor) -> Tensor:
        if self._seen == 0:
            ids = torch.cat([ids, ids[:, -1:]], dim=1)
        return TransformersSession._feed(self, ids)


@case(DEFECT, "last prompt token fed twice")
def fed_twice(backend: TransformersBackend) -> Backends:
    """The prompt's last token enters the cache twice."""
    yield replace(backend, session_kind=FedTwice)


@dataclass(slots=True, kw_only=True)
class Counted(TransformersSession):
    """A session that counts two pads as tokens, and masks the other ones."""

    def _as_batch(self, rows: Any) -> Tensor:
        first = not self._started
        if first:
            rows = [[0] * 4 + list(row) for row in rows]
        ids = TransformersSession._as_batch(self, rows)
        if first:
            self._padding = torch.full((len(rows),), 3)
        return ids


@case(DEFECT, "one pad counted as a token")
def counted_pad(backend: TransformersBackend) -> Backends:
    """The mask of a padded prompt begins one place too early."""
    yield replace(backend, session_kind=Counted)


# ---- norms, residuals, weights -----------------------------------------------------------


@contextlib.contextmanager
def _epsilon(model: Any, value: float) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            for name in ("variance_epsilon", "eps"):
                if isinstance(getattr(module, name, None), float):
                    stack.enter_context(changed(module, name, value))
        yield


@case(DEFECT, "norm epsilon 1e-2")
def large_epsilon(backend: TransformersBackend) -> Backends:
    """The epsilon of all norms is large enough to matter."""
    with _epsilon(backend.model, 1e-2):
        yield backend


@case(DEFECT, "norm epsilon twice as large")
def doubled_epsilon(backend: TransformersBackend) -> Backends:
    """The epsilon of all norms is the next one that a config might have held."""
    config = backend.model.config
    stated = getattr(config, "rms_norm_eps", None) or config.layer_norm_epsilon
    with _epsilon(backend.model, 2 * stated):
        yield backend


@case(DEFECT, "one layer adds 0.1 % too much")
def scaled_residual(backend: TransformersBackend) -> Backends:
    """What one layer's feed-forward part adds to the residual is a thousandth too large."""
    with hooked([layers(backend.model)[1].mlp], lambda out: out * 1.001):
        yield backend


@case(DEFECT, "one channel of the final norm lost")
def lost_channel(backend: TransformersBackend) -> Backends:
    """One of the final norm's weights is zero."""
    model = backend.model
    norm = model.transformer.ln_f if hasattr(model, "transformer") else model.model.norm
    empty = -1.0 if "Gemma" in type(norm).__name__ else 0.0

    def without(weight: Any) -> Any:
        weight[3] = empty
        return weight

    with rewritten(norm.weight, without):
        yield backend


@case(DEFECT, "one bias vector dropped", needs={"learned"})
def dropped_bias(backend: TransformersBackend) -> Backends:
    """One layer's output projection loses its bias."""
    with rewritten(layers(backend.model)[1].attn.c_proj.bias, torch.zeros_like):
        yield backend


@case(DEFECT, "exact GELU instead of its tanh form", needs={"learned"})
def exact_gelu(backend: TransformersBackend) -> Backends:
    """The activation is the one that the approximation stands for."""
    with contextlib.ExitStack() as stack:
        for layer in layers(backend.model):
            stack.enter_context(changed(layer.mlp, "act", torch.nn.GELU()))
        yield backend


# ---- experts -----------------------------------------------------------------------------


@case(DEFECT, "expert weights 1 % too large", needs={"experts"})
def heavy_experts(backend: TransformersBackend) -> Backends:
    """The weights of a token's experts sum to 1.01."""
    with _rerouted(backend.model, lambda _m, _i, weights: weights * 1.01):
        yield backend


@case(DEFECT, "expert weights of one token swapped", needs={"experts"})
def swapped_experts(backend: TransformersBackend) -> Backends:
    """In each pass the last token's two experts get each other's weight."""

    def swap(_module: Any, _index: Tensor, weights: Tensor) -> Tensor:
        return torch.cat([weights[:-1], weights[-1:].flip(1)])

    with _rerouted(backend.model, swap):
        yield backend
