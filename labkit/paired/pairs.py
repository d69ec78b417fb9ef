"""Put two sets of outputs together, item by item, or say why they do not belong together."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import OutputsError
from labkit.outputs import Output, OutputSet

SHOWN = 3
_MUST_AGREE = ("prompt", "reference", "cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same item, answered twice.

    Attributes:
        before: Under the reference path.
        after: Under the changed path.
    """

    before: Output
    after: Output


def pair_outputs(before: OutputSet, after: OutputSet) -> list[Pair]:
    """Pair two sets of outputs by id, in the order of the first.

    Raises:
        OutputsError: If an item stands in one of them only, or asks something else in the other.
    """
    others = {item.id for item in after.items}
    known = {item.id for item in before.items}
    lonely = {
        before.name: [item.id for item in before.items if item.id not in others],
        after.name: [item.id for item in after.items if item.id not in known],
    }
    for name, ids in lonely.items():
        if ids:
            raise OutputsError(
                f"Paired outputs must answer the same items; got {len(ids)} only in {name}: "
                f"{_some(ids)}. Run both on one set of items."
            )
    return shared_pairs(before, after)


def shared_pairs(before: OutputSet, after: OutputSet) -> list[Pair]:
    """Pair the items that both sets hold, in the order of the first.

    Raises:
        OutputsError: If an item asks something else in the second.
    """
    others = {item.id: item for item in after.items}
    pairs = [Pair(before=i, after=others[i.id]) for i in before.items if i.id in others]
    for name in _MUST_AGREE:
        _require_equal(pairs, name)
    return pairs


def _require_equal(pairs: list[Pair], name: str) -> None:
    other = [p.before.id for p in pairs if getattr(p.before, name) != getattr(p.after, name)]
    if other:
        raise OutputsError(
            f"Paired items must have one {name}; got {len(other)} items with another in the "
            f"second file: {_some(other)}. These are outputs for other questions."
        )


def _some(ids: list[str]) -> str:
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return ", ".join(map(repr, ids[:SHOWN])) + more
