"""The ways in which the lab's own questions were answered, each once."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import OutputsError

CAP_TOKENS = 96
ROWS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to run the same questions.

    Attributes:
        label: What differs from the reference, in words.
        dtype: The parameters' dtype.
        option: An option of the lab, as `labkit preservation --knob` spells it.
        rows: Questions in a batch, padded on the left.
    """

    label: str
    dtype: str = "float32"
    option: str | None = None
    rows: int = ROWS


REFERENCE = "float32"
VARIANTS = {
    REFERENCE: Variant(label="the reference: float32, batches of 16"),
    "batches": Variant(label="float32, batches of 8", rows=8),
    "bfloat16": Variant(label="bfloat16, batches of 16", dtype="bfloat16"),
    "int8": Variant(label="int8 weights, batches of 16", option="quantised_weights:bits=8"),
}


def find_variant(name: str) -> Variant:
    """Return a variant by its name.

    Raises:
        OutputsError: If there is none of that name.
    """
    if name not in VARIANTS:
        raise OutputsError(f"a variant must be one of {', '.join(VARIANTS)}; got {name!r}.")
    return VARIANTS[name]
