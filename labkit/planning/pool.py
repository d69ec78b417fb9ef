"""The cache pool of an engine: so many blocks as it reports, or so many bytes as are set aside."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from labkit.errors import PlanningError
from labkit.planning.quantity import ESTIMATED, MEASURED, Quantity, number, quantity

BLOCK_TOKENS: Final = 16
"""Tokens of one block where nobody says otherwise, as paged engines have it."""
MOST_COUNTED: Final = 10**18
"""No pool and no sequence comes near it, and floats still tell neighbours apart in proportion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What sequences share.

    Attributes:
        size: In `block`, or in `byte`; whole numbers.
        block_tokens: Tokens stored in one block.
        headroom: Share of the pool that is kept free, from 0 to below 1.
    """

    size: Quantity
    block_tokens: int
    headroom: Fraction

    @property
    def usable(self) -> int:
        """Whole blocks or bytes that may be given out."""
        return int(self.size.value * (1 - self.headroom))

    @property
    def in_blocks(self) -> bool:
        """Whether the pool counts blocks, not bytes."""
        return str(self.size.unit) == "block"


def pool_of_tokens(
    tokens: int,
    *,
    block_tokens: int = BLOCK_TOKENS,
    headroom: str | float = 0,
    label: str = MEASURED,
    source: str = "the engine's report",
) -> Pool:
    """Return the pool of an engine that reports token slots; a part of a block is no block.

    Raises:
        PlanningError: If a number is not usable.
    """
    block = counted(block_tokens, name="block_tokens")
    blocks = counted(tokens, name="pool_tokens") // block
    return _pool(blocks, "block", block=block, headroom=headroom, label=label, source=source)


def pool_of_blocks(
    blocks: int,
    *,
    block_tokens: int = BLOCK_TOKENS,
    headroom: str | float = 0,
    label: str = MEASURED,
    source: str = "the engine's report",
) -> Pool:
    """Return the pool of an engine that reports blocks.

    Raises:
        PlanningError: If a number is not usable.
    """
    block = counted(block_tokens, name="block_tokens")
    whole = counted(blocks, name="pool_blocks")
    return _pool(whole, "block", block=block, headroom=headroom, label=label, source=source)


def pool_of_bytes(
    size_bytes: int,
    *,
    block_tokens: int = BLOCK_TOKENS,
    headroom: str | float = 0,
    label: str = ESTIMATED,
    source: str = "bytes set aside",
) -> Pool:
    """Return a pool of bytes, for the time before an engine has reported one.

    Raises:
        PlanningError: If a number is not usable.
    """
    block = counted(block_tokens, name="block_tokens")
    size = counted(size_bytes, name="pool_bytes")
    return _pool(size, "byte", block=block, headroom=headroom, label=label, source=source)


def usable_bytes(
    *, reserved_bytes: int, weights_bytes: int, runtime_bytes: int, margin_bytes: int
) -> int:
    """Return what is left for the cache of the memory that an engine may hold.

    Raises:
        PlanningError: If nothing is left, or a number is not usable.
    """
    taken = sum(
        counted(size, name=name, least=0)
        for name, size in (
            ("weights_bytes", weights_bytes),
            ("runtime_bytes", runtime_bytes),
            ("margin_bytes", margin_bytes),
        )
    )
    left = counted(reserved_bytes, name="reserved_bytes") - taken
    if left <= 0:
        raise PlanningError(
            f"Memory must be left for the cache; got reserved_bytes={reserved_bytes} and "
            f"{taken} bytes of weights, runtime and margin. Reserve more, or hold less."
        )
    return left


def counted(value: object, *, name: str, least: int = 1) -> int:
    """Return a whole number that is large enough.

    Raises:
        PlanningError: If it is not, by name and number.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_COUNTED:
        raise PlanningError(
            f"`{name}` must be a whole number from {least} to {MOST_COUNTED:.0e}; "
            f"got {name}={_short(value)}."
        )
    return value


def _short(value: object) -> str:
    # Python refuses to write out an integer of very many digits.
    if isinstance(value, int) and abs(value) > MOST_COUNTED:
        return f"a number of {value.bit_length()} bits"
    return repr(value)


def _pool(
    size: int, unit: str, *, block: int, headroom: str | float, label: str, source: str
) -> Pool:
    share = number(headroom, name="headroom")
    if not 0 <= share < 1:
        raise PlanningError(
            "`headroom` must be a share of the pool, from 0 to below 1; "
            f"got headroom={headroom!r}. A tenth is 0.1."
        )
    whole = quantity(size, unit, label=label, source=source)
    return Pool(size=whole, block_tokens=block, headroom=share)
