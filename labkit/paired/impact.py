"""What a change does to a task, kept apart from what it does to the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from labkit.errors import OutputsError
from labkit.outputs import Output
from labkit.paired.intervals import (
    MIN_CLUSTERS,
    Interval,
    cluster_interval,
    exact_net_interval,
    mcnemar_p,
    share_interval,
)
from labkit.paired.pairs import Pair
from labkit.paired.transitions import Transitions, count_transitions
from labkit.scoring import Extractor, ItemScore, score


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Whether outputs are the same, whatever they are worth.

    Attributes:
        items: Pairs compared.
        different: Pairs that differ.
        compared: `token ids`, `text` where a side of each pair kept no tokens, or both.
    """

    items: int
    different: int
    compared: str

    @property
    def percent(self) -> float:
        """Share of pairs that differ, in percent."""
        return 100 * self.different / self.items


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemImpact:
    """One item on both paths.

    Attributes:
        id: The item.
        cluster: Its cluster, or its id where it has none.
        same_output: Whether the outputs are identical.
        before: Its score on the reference path.
        after: Its score on the changed path.
    """

    id: str
    cluster: str
    same_output: bool
    before: ItemScore
    after: ItemScore

    @property
    def change(self) -> int:
        """+1 gained, -1 lost, 0 neither."""
        return int(self.after.right) - int(self.before.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """A paired comparison under one extractor.

    Attributes:
        extractor: Its name and version.
        items: One an item, in order.
        divergence: How many outputs differ.
        transitions: The four cells.
        p_value: Exact McNemar; None if no outcome changed.
        exact: Interval of the net change for independent items.
        clustered: The same by resampling clusters; None where that is not possible.
        lost: Exact interval of the share lost.
        not_evaluated: What this comparison could not look at.
    """

    extractor: str
    items: tuple[ItemImpact, ...]
    divergence: Divergence
    transitions: Transitions
    p_value: float | None
    exact: Interval
    clustered: Interval | None
    lost: Interval
    not_evaluated: tuple[str, ...]

    def to_json(self, *, with_items: bool = True) -> dict[str, Any]:
        """Return the comparison as plain JSON."""
        cells = self.transitions
        plain: dict[str, Any] = {
            "extractor": self.extractor,
            "divergence": asdict(self.divergence) | {"percent": self.divergence.percent},
            "transitions": asdict(cells) | {"items": cells.items},
            "net_points": cells.net_points,
            "p_value": self.p_value,
            "exact": asdict(self.exact),
            "clustered": asdict(self.clustered) if self.clustered else None,
            "lost": asdict(self.lost),
            "not_evaluated": list(self.not_evaluated),
        }
        if with_items:
            plain["items"] = [asdict(item) | {"change": item.change} for item in self.items]
        return plain


def measure_impact(pairs: Sequence[Pair], extractor: Extractor) -> Impact:
    """Compare paired outputs.

    Raises:
        OutputsError: If there is no pair.
    """
    if not pairs:
        raise OutputsError("a paired comparison needs at least one pair; got none.")
    before = score([pair.before for pair in pairs], extractor).items
    after = _score_changed(pairs, before, extractor)
    same = [same_output(pair) for pair in pairs]
    items = tuple(
        ItemImpact(
            id=p.before.id,
            cluster=p.before.cluster or p.before.id,
            same_output=s,
            before=b,
            after=a,
        )
        for p, s, b, a in zip(pairs, same, before, after, strict=True)
    )
    cells = count_transitions((item.before.right, item.after.right) for item in items)
    clustered = cluster_interval([i.change for i in items], [i.cluster for i in items])
    return Impact(
        extractor=extractor.label,
        items=items,
        divergence=Divergence(
            items=len(pairs), different=same.count(False), compared=compared_by(pairs)
        ),
        transitions=cells,
        p_value=mcnemar_p(cells),
        exact=exact_net_interval(cells),
        clustered=clustered,
        lost=share_interval(cells.right_wrong, cells.items),
        not_evaluated=tuple(_not_evaluated(items, cells, clustered)),
    )


def _score_changed(
    pairs: Sequence[Pair], before: Sequence[ItemScore], extractor: Extractor
) -> list[ItemScore]:
    """Score the changed side; what reads as it did on the other side has the score from there."""
    alike = [_read(pair.before) == _read(pair.after) for pair in pairs]
    others = [pair.after for pair, same in zip(pairs, alike, strict=True) if not same]
    judged = iter(score(others, extractor).items)
    return [old if same else next(judged) for old, same in zip(before, alike, strict=True)]


def _read(output: Output) -> tuple[str, str, str, str]:
    """Return all of an output that its score depends on."""
    return output.id, output.prompt, output.reference, output.text


def same_output(pair: Pair) -> bool:
    """Say whether a pair's outputs are identical, by their token ids where both sides have them."""
    if has_tokens(pair):
        return pair.before.token_ids == pair.after.token_ids
    return pair.before.text == pair.after.text


def has_tokens(pair: Pair) -> bool:
    """Say whether both sides of a pair kept their token ids."""
    return pair.before.token_ids is not None and pair.after.token_ids is not None


def compared_by(pairs: Sequence[Pair]) -> str:
    """Return what pairs are compared by: `token ids`, `text`, or one of the two by the pair."""
    kinds = {"token ids" if has_tokens(pair) else "text" for pair in pairs}
    return " or ".join(sorted(kinds, reverse=True))


def _not_evaluated(
    items: Sequence[ItemImpact], cells: Transitions, clustered: Interval | None
) -> list[str]:
    """Say what a reader might take for clean and nobody looked at."""
    gaps = []
    for side in ("before", "after"):
        outcomes = [getattr(item, side).outcome for item in items]
        for outcome in ("missing", "not judged"):
            if count := outcomes.count(outcome):
                gaps.append(f"{count} answers {side} are {outcome} and count as not right")
    if clustered is None:
        why = "no outcome changed" if not cells.changed else f"fewer than {MIN_CLUSTERS} clusters"
        gaps.append(f"interval over clusters: {why}")
    if cells.changed == 0:
        gaps.append("McNemar's test: no outcome changed")
    if all(item.cluster == item.id for item in items):
        gaps.append("dependence between items: no clusters were given, each item is its own")
    return gaps
