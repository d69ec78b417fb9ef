"""What is true of the runtime and the device, as far as it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from labkit.errors import RequestError
from labkit.rules._reading import choice, nearest, read_fields
from labkit.rules._request import PaddingSide

SystemRole = Literal["accepted", "folded", "dropped", "refused", "no_template", "default_inserted"]

SYSTEM_ROLES = ("accepted", "folded", "dropped", "refused", "no_template", "default_inserted")
PROVENANCES = ("typed", "measured")

_CHOICES = {
    "SystemRole": choice(*SYSTEM_ROLES),
    "PaddingSide": choice("left", "right"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """Facts to be checked, not hoped for. None always means unknown, never no.

    Attributes:
        device_kind: `cpu`, `cuda`, `mps`, ...
        compute_capability: Major and minor number of a CUDA device.
        device_memory_bytes: Memory free for the cache once the weights are loaded.
        fast_bfloat16: Whether bfloat16 runs at the speed of the device's other 16-bit type.
        fast_float16: The same the other way round (many CPUs have no fast float16).
        stored_dtype_kept: Whether a load that names no dtype keeps the checkpoint's.
        flash_attention_installed: Whether a FlashAttention package imports.
        attention_implementations: Names that ran for this architecture on this device.
        softcap_implementations: Names among them whose result shows the logit soft-cap.
        default_attention: Name the library takes when none is asked for.
        compile_available: Whether a small function compiles here.
        head_size_kept: Whether a head size that is not the hidden size over the heads is the one
            the architecture is built with.
        default_cache_dtype: Type that keys and values are kept in where none is asked for;
            `auto` is the computing type.
        cache_length_honoured: Whether a requested length of a static cache is the one allocated.
        quantization_backends: Methods whose backend imports.
        positions_from_mask: Whether positions of padded rows are counted from the mask.
        right_padding_correct: Whether a right-padded row continues from its last real token.
        pad_is_eos: Whether the pad token is the end-of-sequence token or absent.
        default_padding_side: The tokenizer's own side.
        window_supported: Whether the runtime applies the architecture's own window.
        window_override_supported: Whether the runtime can impose a window.
        sinks_supported: Whether it can keep sink tokens beside one.
        expert_capacity_supported: Whether it can bound what an expert takes.
        speculation_drops: Options that have no effect while speculating.
        system_role: What the chat template does with a system message; `default_inserted`
            takes one and writes its own where none was given.
        role_treatment: The same as `system_role`, for every other role that was tried.
        alternating_roles: Whether the template refuses two turns of one role in a row.
        template_clock: Whether two renderings under different dates differ.
        template_bos_count: Leading BOS tokens the template writes itself.
        tokenizer_bos_count: Leading BOS tokens the tokenizer adds.
        tokenizer_max_tokens: The tokenizer's stored maximum length; some store 10^30.
        generation_defaults: The checkpoint's generation config, its sampling part.
        generation_options: Names the generation call takes.
        provenance: How each fact was learned: `typed` or `measured`, and behind that word when
            and how, where it is known.
    """

    device_kind: str | None = None
    compute_capability: tuple[int, int] | None = None
    device_memory_bytes: int | None = None
    fast_bfloat16: bool | None = None
    fast_float16: bool | None = None
    stored_dtype_kept: bool | None = None
    flash_attention_installed: bool | None = None
    attention_implementations: tuple[str, ...] | None = None
    softcap_implementations: tuple[str, ...] | None = None
    default_attention: str | None = None
    compile_available: bool | None = None
    head_size_kept: bool | None = None
    default_cache_dtype: str | None = None
    cache_length_honoured: bool | None = None
    quantization_backends: tuple[str, ...] | None = None
    positions_from_mask: bool | None = None
    right_padding_correct: bool | None = None
    pad_is_eos: bool | None = None
    default_padding_side: PaddingSide | None = None
    window_supported: bool | None = None
    window_override_supported: bool | None = None
    sinks_supported: bool | None = None
    expert_capacity_supported: bool | None = None
    speculation_drops: tuple[str, ...] | None = None
    system_role: SystemRole | None = None
    role_treatment: Mapping[str, str] | None = None
    alternating_roles: bool | None = None
    template_clock: bool | None = None
    template_bos_count: int | None = None
    tokenizer_bos_count: int | None = None
    tokenizer_max_tokens: int | None = None
    generation_defaults: Mapping[str, object] | None = None
    generation_options: tuple[str, ...] | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: object) -> RuntimeFacts:
        """Read facts from parsed JSON; a fact that does not say how it was learned was typed.

        Raises:
            RequestError: If a field is unknown or of another kind; all faults are named.
        """
        facts = read_fields(cls, data, what="Runtime facts", choices=_CHOICES)
        if faults := [*_role_faults(facts), *_provenance_faults(facts)]:
            raise RequestError(
                f"Runtime facts must use the known names; got {', '.join(faults)}. "
                f"Roles are {', '.join(SYSTEM_ROLES)}; provenance is {' or '.join(PROVENANCES)}."
            )
        return replace(facts, provenance=_marked(facts))

    def learned(self, name: str) -> str | None:
        """Return `typed` or `measured` for a fact that is known, None for one that is not."""
        if getattr(self, name) is None:
            return None
        return _word(self.provenance.get(name, "typed"))

    def unknown(self) -> tuple[str, ...]:
        """Return the names of the facts that nobody has learned."""
        return tuple(item.name for item in fields(self) if getattr(self, item.name) is None)


def _word(provenance: str) -> str:
    """Return the word that a provenance begins with."""
    return provenance.partition(" ")[0].rstrip(":")


def _marked(facts: RuntimeFacts) -> dict[str, str]:
    """Return the provenance with every fact that came without one marked as typed."""
    known = {item.name for item in fields(facts)} - {"provenance", *facts.unknown()}
    return {**dict.fromkeys(sorted(known), "typed"), **facts.provenance}


def _role_faults(facts: RuntimeFacts) -> list[str]:
    treatments = facts.role_treatment or {}
    return [
        f"role_treatment.{role}={treatment!r}"
        for role, treatment in treatments.items()
        if treatment not in SYSTEM_ROLES
    ]


def _provenance_faults(facts: RuntimeFacts) -> list[str]:
    names = {item.name for item in fields(facts)} - {"provenance"}
    faults = []
    for name, how in facts.provenance.items():
        if name not in names:
            near = nearest(name, names)
            faults.append(
                f"provenance.{name} (did you mean {near}?)" if near else f"provenance.{name}"
            )
        elif _word(how) not in PROVENANCES:
            faults.append(f"provenance.{name}={how!r}")
    return faults
