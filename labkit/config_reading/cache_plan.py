"""The cache plan: what each layer keeps, from its kind and the geometry of its heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from labkit.config_reading.family import Family
from labkit.config_reading.layouts import BOTH, Layout
from labkit.config_reading.reader import Reader
from labkit.config_reading.shape import MOST_HEADS, WIDEST_ELEMENTS, Shape
from labkit.config_reading.types import (
    CHUNKED,
    FULL,
    LATENT,
    SLIDING,
    UNKNOWN,
    LayerCache,
    SlidingWindow,
)

ATTENDING: Final = frozenset({FULL, SLIDING, CHUNKED, BOTH})
MOST_DIGITS: Final = 6  # of a layer's number


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """KV heads and widths of an attention layer, None where not stated."""

    kv_heads: int | None = None
    key_width: int | None = None
    value_width: int | None = None

    def over(self, base: Geometry) -> Geometry:
        """Return this geometry with the base's sizes where it states none."""
        return Geometry(
            kv_heads=self.kv_heads or base.kv_heads,
            key_width=self.key_width or base.key_width,
            value_width=self.value_width or base.value_width,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One cache entry a layer, and the elements that one further position adds to all."""

    layers: tuple[LayerCache, ...]
    elements_per_token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """The two parts of the compressed vector, and the head width they stand for."""

    rank: int
    rope_width: int
    head_width: int | None


def read_latent(reader: Reader) -> Latent | None:
    """Return the compressed vector's parts where the file says there is one."""
    rank = reader.integer("kv_lora_rank", most=WIDEST_ELEMENTS)
    if rank is None:
        return None
    rope = reader.integer("qk_rope_head_dim", least=0, most=WIDEST_ELEMENTS)
    nope = reader.integer("qk_nope_head_dim", least=0, most=WIDEST_ELEMENTS)
    if rope is None:
        reader.problems.append(
            f"`{reader.prefix}qk_rope_head_dim` must be stated beside `kv_lora_rank`; got "
            f"kv_lora_rank={rank} and no qk_rope_head_dim. Latent attention keeps both parts."
        )
        return None
    return Latent(rank=rank, rope_width=rope, head_width=None if nope is None else nope + rope)


def build_plan(
    reader: Reader,
    family: Family,
    *,
    layout: Layout,
    shape: Shape,
    window: SlidingWindow,
    latent: Latent | None,
) -> Plan | None:
    """Return one cache entry a layer, or None with a note where a part is missing."""
    plain = Geometry(
        kv_heads=shape.num_kv_heads,
        key_width=shape.head_dim,
        value_width=reader.integer("v_head_dim", least=0, most=WIDEST_ELEMENTS) or shape.head_dim,
    )
    own = _own_geometries(reader, layout)
    # A layer without sizes of its own is known by its kind alone.
    layers = (
        layout.kinds
        if not own
        else tuple((kind, own.get(index)) for index, kind in enumerate(layout.kinds))
    )
    entries: dict[object, LayerCache] = {}
    for layer in dict.fromkeys(layers):
        kind, sizes = layer if isinstance(layer, tuple) else (layer, None)
        geometry = None
        if kind in ATTENDING and latent is None and not family.latent:
            geometry = _geometry(reader, family, kind=kind, plain=plain, own=sizes)
        entry = _entry(reader, kind=kind, geometry=geometry, window=window, latent=latent)
        if entry is None:
            return None
        entries[layer] = entry
    return Plan(
        layers=tuple(map(entries.__getitem__, layers)),
        elements_per_token=sum(
            entry.elements_per_token * layers.count(layer) for layer, entry in entries.items()
        ),
    )


def _entry(
    reader: Reader,
    *,
    kind: str,
    geometry: Geometry | None,
    window: SlidingWindow,
    latent: Latent | None,
) -> LayerCache | None:
    if kind == UNKNOWN:
        return None
    if kind not in ATTENDING:
        return LayerCache(kind=kind)
    if latent is not None:
        width = latent.rank + latent.rope_width
        return LayerCache(kind=LATENT, kv_heads=1, key_width=width, value_width=0)
    if geometry is None:
        reader.note("`kv_lora_rank` is not stated, so the width of the latent cache is open.")
        return None
    if geometry.kv_heads is None or geometry.key_width is None:
        what = "KV heads" if geometry.kv_heads is None else "head width"
        reader.note(f"The file does not state the {what} of its {kind} layers; bytes are open.")
        return None
    return LayerCache(
        kind=FULL if kind == BOTH else kind,
        kv_heads=geometry.kv_heads,
        key_width=geometry.key_width,
        value_width=geometry.value_width,
        window=window.size if kind in (SLIDING, CHUNKED) else None,
        also_recurrent=kind == BOTH,
    )


def _geometry(
    reader: Reader, family: Family, *, kind: str, plain: Geometry, own: Geometry | None
) -> Geometry:
    """Put together what the layer, its kind and the whole model state, in this order."""
    geometry = _of_kind(reader, kind).over(plain)
    for needing, key in family.stated_apart:
        if kind == needing and reader.get(key) is None:
            geometry = Geometry()  # the class has a size of its own for this kind
    return geometry if own is None else own.over(geometry)


def _of_kind(reader: Reader, kind: str) -> Geometry:
    """Sliding layers may have `swa_` sizes of their own, full ones `global_` sizes."""
    if kind == SLIDING:
        width = reader.integer("swa_head_dim", most=WIDEST_ELEMENTS)
        return Geometry(
            kv_heads=reader.integer("swa_num_key_value_heads", most=MOST_HEADS),
            key_width=width,
            value_width=reader.integer("swa_v_head_dim", most=WIDEST_ELEMENTS) or width,
        )
    if kind != FULL:
        return Geometry()
    width = reader.integer("global_head_dim", most=WIDEST_ELEMENTS)
    kv_heads = reader.integer("num_global_key_value_heads", most=MOST_HEADS)
    if reader.flag("attention_k_eq_v") is False:
        kv_heads = None  # counts only where keys and values share their projection
    return Geometry(kv_heads=kv_heads, key_width=width, value_width=width)


def _own_geometries(reader: Reader, layout: Layout) -> dict[int, Geometry]:
    """Return what single layers state for themselves, by their index."""
    own: dict[int, Geometry] = {}
    if layout.kv_heads is not None:
        own = {index: Geometry(kv_heads=count) for index, count in enumerate(layout.kv_heads)}
    table = reader.table("per_layer_config")
    if table is None:
        return own
    for name in table.fields:
        inner = table.table(name)
        if inner is None:
            continue
        if not str(name).isdecimal() or len(str(name)) > MOST_DIGITS:
            table.refuse(name, table.fields[name], must="named by the number of a layer")
            continue
        width = inner.integer("head_dim", most=WIDEST_ELEMENTS)
        own[int(name)] = Geometry(
            kv_heads=inner.integer("num_key_value_heads", most=MOST_HEADS),
            key_width=width,
            value_width=inner.integer("v_head_dim", most=WIDEST_ELEMENTS) or width,
        ).over(own.get(int(name), Geometry()))
    return own
