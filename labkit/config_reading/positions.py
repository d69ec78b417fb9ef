"""How positions enter, how many the file states, and how rotary ones are rescaled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from labkit.config_reading.family import Family
from labkit.config_reading.reader import Reader
from labkit.config_reading.types import RopeScaling

LENGTH_KEYS: Final = (  # the first one stated counts: the later ones may mean a trained length
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_context_length",
    "context_length",
    "n_ctx",
    "model_max_length",
)
ORIGINAL_KEYS: Final = ("original_max_position_embeddings", "initial_context_length")
PLAIN: Final = RopeScaling()


def read_position_kind(reader: Reader, family: Family | None) -> str | None:
    """Return the scheme, as the family's code or the file decides it."""
    if family is None:
        return None
    if isinstance(family.positions, str):
        return family.positions
    kind = family.positions(reader)
    if kind is None:
        reader.note("The file does not say how positions enter; the model type alone does not.")
    return kind


def read_max_position(reader: Reader) -> int | None:
    """Return the length the file states."""
    return reader.first_integer(*LENGTH_KEYS)


def read_rope_scaling(reader: Reader, family: Family | None) -> RopeScaling:
    """Read the rescaling in its old or new spelling, exactly as stated."""
    reader.integer(*ORIGINAL_KEYS)
    old = _read_block(reader, "rope_scaling")
    new = _read_block(reader, "rope_parameters")
    found = [block for block in (old, new) if block is not None and block.kind != "none"]
    if len(found) == 2 and found[0] != found[1]:
        must = "`rope_scaling` and `rope_parameters` mean the same and must agree"
        reader.contradict(must, "rope_scaling", "rope_parameters")
    if found:
        return found[0]
    if family is not None and family.rope_scaling is not None:
        return family.rope_scaling(reader) or PLAIN
    return PLAIN


def _read_block(reader: Reader, key: str) -> RopeScaling | None:
    block = reader.table(key)
    if block is None:
        return None
    if any(isinstance(value, Mapping) for value in block.fields.values()):
        return _read_keyed_by_layer_type(block)
    return _read_one(block, reader)


def _read_keyed_by_layer_type(block: Reader) -> RopeScaling:
    """Take the full-attention layers' entry, or else the first that rescales anything."""
    names = sorted(block.fields, key=lambda name: (name != "full_attention", str(name)))
    for name in names:
        inner = block.table(name) if isinstance(block.fields[name], Mapping) else None
        scaling = None if inner is None else _read_one(inner, block)
        if scaling is not None and scaling.kind != "none":
            return scaling
    return PLAIN


def _read_one(block: Reader, outer: Reader) -> RopeScaling:
    factor = block.number("factor")
    original = block.integer("original_max_position_embeddings")
    kind = _read_kind(block, has_figures=factor is not None or original is not None)
    if kind == "none":
        return PLAIN
    if original is None:
        original = outer.integer(*ORIGINAL_KEYS)  # where Phi-3 and gpt-oss state it
    return RopeScaling(kind=kind, factor=factor, original_max_position=original)


def _read_kind(block: Reader, *, has_figures: bool) -> str:
    new, old = block.text("rope_type"), block.text("type")
    kind = old if new in (None, "default") and old is not None else new
    if new is not None and old not in (None, "default", new) and new != "default":
        block.disagree("rope_type", new, "type", old)
    if kind is None:
        if block.fields.get("mrope_section") is not None:
            return "mrope"
        if not has_figures:
            return "none"
        block.note(
            f"`{block.prefix.rstrip('.')}` rescales positions without a type or rope_type; "
            "its kind is unknown."
        )
        return "unknown"
    return "none" if kind == "default" else kind
