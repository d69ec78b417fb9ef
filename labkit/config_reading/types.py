"""What a config says about a model, as frozen values: the scalars and the cache plan.

Every byte figure derives from the plan, a tuple with one `LayerCache` a layer. A figure
whose ground the file does not state is `None`, and `ModelSpec.notes` says why.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Final

FULL: Final = "full"  # keys and values of every position
SLIDING: Final = "sliding"  # keys and values of the last `window` positions
CHUNKED: Final = "chunked"  # keys and values of the current chunk of `window` positions
LATENT: Final = "mla"  # one compressed vector a position, shared by all heads
RECURRENT: Final = "recurrent"  # a state of fixed size: state-space or linear attention
CONVOLUTION: Final = "conv"  # the last few inputs of a short convolution
CROSS: Final = "cross"  # attends to an image or sound, does not grow with the text
SHARED: Final = "shared"  # attends to another layer's cache and keeps none
NOTHING: Final = "none"  # no attention at all: a feed-forward or skipped layer
UNKNOWN: Final = "unknown"  # the file uses a word this package does not know

GROWING_KINDS: Final = frozenset({FULL, SLIDING, CHUNKED, LATENT})
STATE_KINDS: Final = frozenset({RECURRENT, CONVOLUTION})

EXTENDING_ROPE_KINDS: Final = frozenset(
    {"linear", "dynamic", "ntk", "yarn", "longrope", "su", "llama3", "deepseek_yarn"}
)
PLAIN_ROPE_KINDS: Final = frozenset({"none", "mrope", "proportional"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCache:
    """What one layer keeps between steps.

    Attributes:
        kind: One of the kinds named in this module.
        kv_heads: Heads whose keys and values are kept, None where nothing grows.
        key_width: Elements of one head's key, or of the compressed vector of `mla`.
        value_width: Elements of one head's value; 0 for `mla`, which keeps one vector.
        window: Positions kept at most, None for no limit that the file states.
        also_recurrent: True for a layer that keeps a recurrent state beside its cache.
    """

    kind: str
    kv_heads: int | None = None
    key_width: int | None = None
    value_width: int | None = None
    window: int | None = None
    also_recurrent: bool = False

    @property
    def elements_per_token(self) -> int:
        """Elements one further position adds, 0 for a layer that does not grow."""
        if self.kv_heads is None or self.key_width is None or self.value_width is None:
            return 0
        return self.kv_heads * (self.key_width + self.value_width)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow:
    """Which positions a layer may look back to, as far as the file says.

    Attributes:
        size: Width in tokens, None where the file states none.
        enabled: False where a switch turns it off or no layer uses it, None where a
            family that has a switch does not state it.
        scope_from_file: none | off | size_only | layer_list | pattern.
        sliding_layers: Layers that the file says slide; None for `size_only`.
        kind: sliding | chunked, None without a window.
    """

    size: int | None = None
    enabled: bool | None = False
    scope_from_file: str = "none"
    sliding_layers: int | None = 0
    kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """How rotary positions are rescaled, exactly as stated.

    Attributes:
        kind: `none`, the stated word, or `unknown` where a factor comes without a word.
        factor: The stated factor.
        original_max_position: The stated length before the extension, in tokens.
    """

    kind: str = "none"
    factor: float | None = None
    original_max_position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A causal language model's architecture as its config.json states it.

    `None` means that the file does not say; class defaults are never filled in.

    Attributes:
        name: What messages call the model.
        model_type: The file's own `model_type`.
        text_model_type: The inner `model_type` of a nested file.
        nested_under: The key that holds the language model of a nested file.
        num_layers: Depth, layers without attention included.
        attention_kind: MHA | GQA | MQA | MLA | hybrid | none.
        attention_kind_of_attention_layers: For hybrids, the kind of their attention.
        kv_layers: Layers whose cache grows with the text.
        kv_bytes_per_token: Cache growth a token over all layers, 2 bytes an element.
        max_position: The largest length the file states, in tokens.
        position_kind: learned | rope | alibi | sinusoidal | none.
        num_experts: Routed experts only; `experts_per_token` of them run.
        tied_embeddings: Whether input and output embeddings are one matrix.
        dtype: The stated dtype of weights; `quantization` the stated method.
        cache_plan: One entry a layer; None where the file does not settle it.
        notes: Why something is None, and what was assumed, in sentences.
        unread: Keys of the file that nothing here reads or knowingly ignores.
    """

    name: str
    model_type: str | None = None
    text_model_type: str | None = None
    nested_under: str | None = None
    num_layers: int | None = None
    hidden_size: int | None = None
    num_attention_heads: int | None = None
    num_kv_heads: int | None = None
    head_dim: int | None = None
    attention_kind: str | None = None
    attention_kind_of_attention_layers: str | None = None
    kv_layers: int | None = None
    kv_bytes_per_token: int | None = None
    max_position: int | None = None
    position_kind: str | None = None
    sliding_window: SlidingWindow = field(default_factory=SlidingWindow)
    rope_scaling: RopeScaling = field(default_factory=RopeScaling)
    attn_logit_softcap: float | None = None
    final_logit_softcap: float | None = None
    num_experts: int | None = None
    experts_per_token: int | None = None
    vocab_size: int | None = None
    tied_embeddings: bool | None = None
    dtype: str | None = None
    quantization: str | None = None
    cache_plan: tuple[LayerCache, ...] | None = None
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def rope_is_extension(self) -> bool | None:
        """Whether positions reach past a shorter original; None where that is not known."""
        if self.position_kind not in (None, "rope"):
            return False
        kind = self.rope_scaling.kind
        if kind in EXTENDING_ROPE_KINDS:
            return self.rope_scaling.factor != 1
        return False if kind in PLAIN_ROPE_KINDS else None

    def cache_bytes(self, *, tokens: int, batch: int = 1, bytes_per_element: int = 2) -> int | None:
        """Bytes of keys and values after `tokens` positions; windows cap the length.

        Recurrent and convolution states are of fixed size and not counted. Where the
        file gives a window but not its layers (`sliding_window.sliding_layers` is None),
        the figure is the upper bound without that window.

        Args:
            tokens: Positions in the cache, prompt and answer together.
            batch: Sequences held at once.
            bytes_per_element: 2 for 16-bit caches, 1 for 8-bit, 4 for float32.

        Returns:
            The bytes, or None where the cache plan is not known.

        Raises:
            ValueError: If an argument is negative.
        """
        if min(tokens, batch, bytes_per_element) < 0:
            raise ValueError(
                "`tokens`, `batch` and `bytes_per_element` must not be negative; got "
                f"tokens={tokens}, batch={batch}, bytes_per_element={bytes_per_element}."
            )
        if self.cache_plan is None:
            return None
        elements = sum(
            count * layer.elements_per_token * _kept_tokens(layer, tokens)
            for layer, count in Counter(self.cache_plan).items()
        )
        return elements * batch * bytes_per_element

    @property
    def cache_bytes_full_context(self) -> int | None:
        """Cache bytes of one sequence at `max_position`, 2 bytes an element."""
        if self.max_position is None:
            return None
        return self.cache_bytes(tokens=self.max_position)

    def to_json(self) -> dict[str, object]:
        """Return the spec as plain JSON values, the plan as runs of equal layers."""
        row: dict[str, object] = {f.name: getattr(self, f.name) for f in fields(self)}
        row["sliding_window"] = _as_dict(self.sliding_window)
        row["rope_scaling"] = _as_dict(self.rope_scaling)
        row["rope_is_extension"] = self.rope_is_extension
        row["cache_plan"] = None if self.cache_plan is None else _plan_runs(self.cache_plan)
        row["notes"] = list(self.notes)
        row["unread"] = list(self.unread)
        return row

    def summary_row(self) -> dict[str, object]:
        """Return one flat row of scalars, ready for a table."""
        row = self.to_json()
        for nested, short in (("sliding_window", "window"), ("rope_scaling", "rope")):
            inner = row.pop(nested)
            if isinstance(inner, dict):
                row.update({f"{short}_{key}": value for key, value in inner.items()})
        del row["cache_plan"]
        row["notes"] = " ".join(self.notes)
        row["unread"] = ", ".join(self.unread)
        row["cache_bytes_full_context"] = self.cache_bytes_full_context
        return row


def _kept_tokens(layer: LayerCache, tokens: int) -> int:
    return tokens if layer.window is None else min(tokens, layer.window)


def _as_dict(value: LayerCache | SlidingWindow | RopeScaling) -> dict[str, object]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def _plan_runs(plan: tuple[LayerCache, ...]) -> list[dict[str, object]]:
    """Fold neighbours that keep the same into one entry with the layers it covers."""
    runs: list[dict[str, object]] = []
    start = 0
    for index in range(1, len(plan) + 1):
        if index == len(plan) or plan[index] != plan[start]:
            runs.append({"first_layer": start, "layers": index - start, **_as_dict(plan[start])})
            start = index
    return runs
