"""From a config to its `ModelSpec`: refuse, find the language model, read, check, report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from labkit.config_reading import positions, storage
from labkit.config_reading.families import family_of, family_of_architecture
from labkit.config_reading.family import Family
from labkit.config_reading.keys import unread_keys
from labkit.config_reading.layers import read_layers
from labkit.config_reading.reader import Reader, shown
from labkit.config_reading.refusals import REMEDY, class_names, refusal_of
from labkit.config_reading.shape import DEPTH_KEYS
from labkit.config_reading.types import ModelSpec
from labkit.errors import ConfigError

DEEPEST_NESTING: Final = 3  # thinker_config.text_config is the deepest seen
NESTING_KEYS: Final = ("text_config", "llm_config", "language_config", "thinker_config")


def fingerprint(config: Mapping[str, object], name: str | None = None) -> ModelSpec:
    """Read what a config states about its model, without loading anything.

    Args:
        config: The parsed config.json.
        name: What messages call the model; by default the end of `_name_or_path`, or the
            model type.

    Returns:
        The spec. What the file does not state is None; class defaults are never filled in.

    Raises:
        ConfigError: If it is no causal language model's config, a value is broken, or fields
            contradict each other. The text names every such field.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"A config must be a JSON object; got {shown(config)}. {REMEDY}")
    outer = Reader(config)
    name = name if name is not None else _display_name(outer)
    refusal = refusal_of(outer)
    if refusal is not None:
        raise ConfigError(f"{name}: {refusal}")
    reader, nested_under = _language_model(outer)
    if nested_under is not None and (refusal := refusal_of(reader)) is not None:
        raise ConfigError(f"{name}: {refusal}")
    spec = _read(reader, outer, name=name, nested_under=nested_under)
    if outer.problems:
        raise ConfigError(f"{name}: {' '.join(dict.fromkeys(outer.problems))}")
    return spec


def _read(reader: Reader, outer: Reader, *, name: str, nested_under: str | None) -> ModelSpec:
    family = _find_family(reader, outer)
    layers = read_layers(reader, family)
    shape = layers.shape
    experts = storage.read_experts(reader)
    return ModelSpec(
        name=name,
        model_type=outer.text("model_type"),
        text_model_type=None if nested_under is None else reader.text("model_type"),
        nested_under=nested_under,
        num_layers=shape.num_layers,
        hidden_size=shape.hidden_size,
        num_attention_heads=shape.num_attention_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        attention_kind=layers.attention_kind,
        attention_kind_of_attention_layers=layers.kind_of_attention_layers,
        kv_layers=layers.kv_layers,
        kv_bytes_per_token=layers.kv_bytes_per_token,
        max_position=positions.read_max_position(reader),
        position_kind=positions.read_position_kind(reader, family),
        sliding_window=layers.window,
        rope_scaling=positions.read_rope_scaling(reader, family),
        attn_logit_softcap=storage.read_softcap(reader, "attn_logit_softcapping"),
        final_logit_softcap=storage.read_softcap(
            reader, "final_logit_softcapping", "logits_soft_cap"
        ),
        num_experts=experts.num_experts,
        experts_per_token=experts.experts_per_token,
        vocab_size=storage.read_vocabulary(reader),
        tied_embeddings=storage.read_tied(reader, outer),
        dtype=storage.read_dtype(reader, outer),
        quantization=storage.read_quantization(reader, outer),
        cache_plan=None if layers.plan is None else layers.plan.layers,
        notes=tuple(dict.fromkeys(outer.notes)),
        unread=unread_keys(reader, outer),
    )


def _language_model(outer: Reader, levels: int = DEEPEST_NESTING) -> tuple[Reader, str | None]:
    """Return the object that describes the language model, and the key that holds it."""
    if any(outer.fields.get(key) is not None for key in DEPTH_KEYS):
        inner_states_depth = [
            key
            for key in NESTING_KEYS
            if isinstance(inner := outer.fields.get(key), Mapping)
            and any(inner.get(depth) is not None for depth in DEPTH_KEYS)
        ]
        if not inner_states_depth:
            return outer, None
    for key in NESTING_KEYS if levels else ():
        if not outer.states(key):
            continue
        inner_reader = outer.table(key)
        if inner_reader is None:
            if not outer.problems:
                outer.refuse(key, None, must="an object that describes the language model")
            return outer, None
        deeper, path = _language_model(inner_reader, levels - 1)
        return deeper, key if path is None else f"{key}.{path}"
    return outer, None


def _find_family(reader: Reader, outer: Reader) -> Family | None:
    """Look the family up by the innermost type, then by the classes that run the file."""
    stated = reader.text("model_type")
    for source in (reader, outer):
        family = family_of(source.text("model_type"))
        if family is not None:
            return _without_latent(family) if _switched_off(reader, family) else family
    if stated is None:
        stated = outer.text("model_type")
    for class_name in class_names(reader.fields) + class_names(outer.fields):
        family = family_of_architecture(class_name)
        if family is not None:
            reader.note(
                f"`model_type` is {shown(stated)}, which labkit does not know; the file is read "
                f"as its architectures={class_name} says."
                if stated is not None
                else f"`model_type` is missing; read as its architectures={class_name} says."
            )
            return family
    if stated is None:
        reader.problems.append(
            "`model_type` must name the architecture; got no model_type and no architectures "
            f"that labkit knows. {REMEDY}"
        )
    else:
        reader.note(
            f"`model_type` {shown(stated)} is not known to labkit, so only what the file states "
            "is given; positions, attention kind and cache plan are open."
        )
    return None


def _switched_off(reader: Reader, family: Family) -> bool:
    """Whether the file takes latent attention off; some states its widths as 0 beside that."""
    return family.latent and reader.flag("use_mla") is False


def _without_latent(family: Family) -> Family:
    return replace(family, latent=False, missing_head_dim="ratio")


def _display_name(outer: Reader) -> str:
    path = outer.fields.get("_name_or_path")
    if isinstance(path, str) and (tail := path.rstrip("/").rpartition("/")[2]):
        return tail
    model_type = outer.fields.get("model_type")
    return model_type if isinstance(model_type, str) and model_type else "config"
