"""What follows from the layers together: their kinds, the sizes they share, the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from labkit.config_reading.cache_plan import (
    ATTENDING,
    Latent,
    Plan,
    build_plan,
    read_latent,
)
from labkit.config_reading.family import Family
from labkit.config_reading.layouts import BOTH, Layout, read_layout
from labkit.config_reading.reader import Reader
from labkit.config_reading.shape import Shape, read_depth, read_shape
from labkit.config_reading.types import (
    FULL,
    RECURRENT,
    SHARED,
    SLIDING,
    STATE_KINDS,
    UNKNOWN,
    SlidingWindow,
)
from labkit.config_reading.windows import read_window, read_window_pattern

BYTES_PER_ELEMENT: Final = 2  # of the 16-bit cache that `kv_bytes_per_token` means


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Everything that follows from the layers: sizes, window, kinds and the plan."""

    shape: Shape
    window: SlidingWindow
    attention_kind: str | None = None
    kind_of_attention_layers: str | None = None
    kv_layers: int | None = None
    plan: Plan | None = None

    @property
    def kv_bytes_per_token(self) -> int | None:
        """Bytes one further position adds over all layers, 2 bytes an element."""
        return None if self.plan is None else BYTES_PER_ELEMENT * self.plan.elements_per_token


def read_layers(reader: Reader, family: Family | None) -> Layers:
    """Read sizes, window and cache plan; without a family only what the file states."""
    depth = read_depth(reader)
    layout = read_kinds(reader, family, depth)
    if depth is None and layout is not None:
        depth = len(layout.kinds)
    if depth is None:
        reader.note("The file does not state how many layers there are; the cache plan is open.")
    shape = read_shape(reader, family, depth=depth)
    if layout is not None and layout.kv_heads is not None:
        shape = replace(shape, num_kv_heads=_one_count(reader, layout.kv_heads, layout.key))
    window = read_window(reader, family, layout)
    if layout is not None and family is not None:
        layout = _share_last_layers(reader, family, layout)
    latent = read_latent(reader)
    if latent is not None:
        shape = replace(shape, head_dim=latent.head_width)
    if layout is None or family is None:
        return Layers(shape=shape, window=window)
    kind, kind_of_attention = attention_kinds(layout, shape, latent=latent, family=family)
    plan = build_plan(reader, family, layout=layout, shape=shape, window=window, latent=latent)
    return Layers(
        shape=shape,
        window=window,
        attention_kind=kind,
        kind_of_attention_layers=kind_of_attention,
        kv_layers=growing_layers(layout),
        plan=plan,
    )


def _one_count(reader: Reader, counts: tuple[int | None, ...], key: str) -> int | None:
    found = sorted({count for count in counts if count is not None})
    if len(found) > 1:
        reader.note(
            f"`{key}` gives from {found[0]} to {found[-1]} KV heads a layer, not one number."
        )
    return found[0] if len(found) == 1 else None


def read_kinds(reader: Reader, family: Family | None, depth: int | None) -> Layout | None:
    """Return the kind of every layer, None where neither file nor family settles it."""
    own = family.layout(reader, depth) if family is not None and family.layout else None
    layout = own or read_layout(reader, depth) or read_window_pattern(reader, family, depth)
    if layout is None:
        layout = _kinds_of_family(reader, family, depth)
    if layout is not None and family is not None and family.attention_slides:
        kinds = tuple(SLIDING if kind == FULL else kind for kind in layout.kinds)
        return replace(layout, kinds=kinds)
    return layout


def _kinds_of_family(reader: Reader, family: Family | None, depth: int | None) -> Layout | None:
    if family is None or depth is None:
        return None
    if family.layers == "listed":
        reader.note(
            "The file does not list which layers attend, and this family mixes kinds; "
            "what the layers keep is not known."
        )
        return None
    kind = {"attention": FULL, "both": BOTH, "recurrent": RECURRENT}[family.layers]
    return Layout(kinds=(kind,) * depth, key="", scope="none")


def _share_last_layers(reader: Reader, family: Family, layout: Layout) -> Layout:
    """Let the last layers attend to the caches of earlier ones, where the file says so."""
    shared = reader.integer("num_kv_shared_layers", least=0)
    depth = len(layout.kinds)
    if shared is None and family.shares_layers:
        reader.note("`num_kv_shared_layers` is not stated, so the layers with a cache are open.")
        return replace(layout, kinds=(UNKNOWN,) * depth)
    if not shared:
        return layout
    if shared > depth:
        reader.problems.append(
            f"`num_kv_shared_layers` must not exceed the depth; got num_kv_shared_layers="
            f"{shared}, num_hidden_layers={depth}."
        )
        return layout
    return replace(layout, kinds=layout.kinds[:-shared] + (SHARED,) * shared)


def attention_kinds(
    layout: Layout, shape: Shape, *, latent: Latent | None, family: Family | None
) -> tuple[str | None, str | None]:
    """Return the model's attention kind and, for a hybrid, that of its attention layers."""
    kinds = set(layout.kinds)
    if UNKNOWN in kinds:
        return None, None
    attending = kinds & ATTENDING
    if not attending:
        return "none", None
    head_kind = _head_kind(layout, shape, latent=latent, family=family)
    mixed = bool(kinds & STATE_KINDS) or BOTH in kinds
    return ("hybrid", head_kind) if mixed else (head_kind, None)


def _head_kind(
    layout: Layout, shape: Shape, *, latent: Latent | None, family: Family | None
) -> str | None:
    if latent is not None or (family is not None and family.latent):
        return "MLA"
    if layout.kv_heads is None:
        pairs = {(shape.num_attention_heads, shape.num_kv_heads)}
    else:
        heads = layout.heads or (shape.num_attention_heads,) * len(layout.kinds)
        pairs = set(zip(heads, layout.kv_heads, strict=True))
    found = {
        "MHA" if kv == queries else "MQA" if kv == 1 else "GQA"
        for queries, kv in pairs
        if queries is not None and kv is not None
    }
    return "GQA" if len(found) > 1 else next(iter(found), None)


def growing_layers(layout: Layout) -> int | None:
    """Return how many layers keep a growing cache, None where a layer is unknown."""
    if UNKNOWN in layout.kinds:
        return None
    return sum(map(layout.kinds.count, ATTENDING))
