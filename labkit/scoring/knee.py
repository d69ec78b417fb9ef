"""The smallest cap that is enough: chosen on one half of the items, confirmed on the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.errors import OutputsError
from labkit.outputs import Output
from labkit.scoring.registry import Extractor
from labkit.scoring.scores import score


@dataclass(frozen=True, slots=True, kw_only=True)
class CapPoint:
    """What a cap gives.

    Attributes:
        cap: Largest number of new tokens.
        accuracy: Share of items that are right, 0 to 1.
        share_at_cap: Share that reached the cap; None where it was not recorded.
        mean_tokens: Tokens used on average; None where they were not recorded.
    """

    cap: int
    accuracy: float
    share_at_cap: float | None = None
    mean_tokens: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KneeLimits:
    """What `enough` means, declared before looking.

    Attributes:
        tolerance_points: Largest distance from the plateau, in percentage points.
        max_share_at_cap: Largest share of outputs at the cap.
    """

    tolerance_points: float = 1.0
    max_share_at_cap: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """The cap that was chosen, and whether it held elsewhere.

    Attributes:
        cap: The smallest that is enough on the calibration half; None if none is.
        calibration: The sweep it was chosen on.
        held_out: The sweep of the other half.
        confirmed: Whether the cap is enough on the other half too; None without a cap.
    """

    cap: int | None
    calibration: tuple[CapPoint, ...]
    held_out: tuple[CapPoint, ...]
    confirmed: bool | None


def sweep(outputs: Sequence[Output], extractor: Extractor, caps: Sequence[int]) -> list[CapPoint]:
    """Score outputs as they would have been at each cap, which must not pass their own.

    A greedy output that is cut after so many tokens is the output of a run with that cap, so
    nothing is generated anew. For sampled outputs the same cut is a different draw.

    Raises:
        OutputsError: If there is no output, a cap is not positive, or one exceeds the cap at
            which outputs ended.
    """
    if not outputs or not caps or min(caps) < 1:
        raise OutputsError(
            f"a sweep needs outputs and positive caps; got {len(outputs)} outputs, caps={caps}."
        )
    ended = min((o.output_tokens for o in outputs if o.at_cap), default=max(caps))
    if max(caps) > ended:
        raise OutputsError(
            f"a cap must not pass the one at which outputs ended; got cap={max(caps)}, and some "
            f"ended at {ended}. What they would have gone on to say is not known."
        )
    return [_point(outputs, extractor, cap) for cap in sorted(set(caps))]


def _point(outputs: Sequence[Output], extractor: Extractor, cap: int) -> CapPoint:
    cut = [output.cut(cap) for output in outputs]
    return CapPoint(
        cap=cap,
        accuracy=score(cut, extractor).accuracy,
        share_at_cap=sum(output.at_cap for output in cut) / len(cut),
        mean_tokens=sum(output.output_tokens for output in cut) / len(cut),
    )


def is_enough(point: CapPoint, *, plateau: CapPoint, limits: KneeLimits) -> bool:
    """Say whether a cap is near enough to the plateau and truncates little enough.

    A share that was not recorded is not held against it; whoever shows the knee says so.
    """
    # Percentages are printed to two decimals: a distance that equals the tolerance counts.
    near = round(100 * (plateau.accuracy - point.accuracy), 6) <= limits.tolerance_points
    return near and (point.share_at_cap or 0.0) <= limits.max_share_at_cap


def find_knee(points: Sequence[CapPoint], limits: KneeLimits) -> int | None:
    """Return the smallest cap that is enough; the largest cap of a sweep is its plateau.

    None if even the largest truncates too much: there is no plateau to be near to.
    """
    plateau = max(points, key=lambda point: point.cap)
    caps = [p.cap for p in points if is_enough(p, plateau=plateau, limits=limits)]
    return min(caps) if plateau.cap in caps else None


def calibrate(
    outputs: Sequence[Output], extractor: Extractor, caps: Sequence[int], limits: KneeLimits
) -> Knee:
    """Choose a cap on every other item of each cluster, and try it on the rest.

    Raises:
        OutputsError: If there are too few items for two halves, only one cap, or as `sweep` does.
    """
    chosen, rest = halves(outputs)
    if not rest:
        raise OutputsError("a knee needs two items of one cluster at least, to hold one out.")
    if len(set(caps)) < 2:
        raise OutputsError(
            f"a knee needs two caps at least, one to be near the other; got caps={list(caps)}."
        )
    calibration, held_out = sweep(chosen, extractor, caps), sweep(rest, extractor, caps)
    cap = find_knee(calibration, limits)
    there = next((point for point in held_out if point.cap == cap), None)
    confirmed = is_enough(there, plateau=held_out[-1], limits=limits) if there else None
    return Knee(
        cap=cap,
        calibration=tuple(calibration),
        held_out=tuple(held_out),
        confirmed=confirmed,
    )


def halves(outputs: Sequence[Output]) -> tuple[list[Output], list[Output]]:
    """Deal the items of each cluster out to two halves in turn; without clusters, all of them."""
    dealt: dict[str | None, list[Output]] = defaultdict(list)
    for output in outputs:
        dealt[output.cluster].append(output)
    clusters = dealt.values()
    return [o for c in clusters for o in c[::2]], [o for c in clusters for o in c[1::2]]
