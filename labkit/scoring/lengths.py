"""How long outputs are, why they ended, and how much of them is reasoning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labkit.outputs import Output

OPENS, CLOSES = "<think>", "</think>"
QUANTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An output in its two parts.

    Attributes:
        answer: What follows the reasoning block; empty if the block never closed.
        reasoning_tokens: Tokens up to the end of the block; None if they cannot be told.
        answer_tokens: The others.
    """

    answer: str
    reasoning_tokens: int | None
    answer_tokens: int | None


def answer_of(output: Output) -> str:
    """Return what follows the reasoning block, all of an output without one.

    The block ends at the last `</think>`. One that was opened, by the output or at the end of
    its prompt, and never closed, leaves no answer, whatever was closed before it.
    """
    return "" if _is_open(output) else output.text.rpartition(CLOSES)[2]


def _is_open(output: Output) -> bool:
    """Say whether the text ends inside a reasoning block."""
    _, closed, rest = output.text.rpartition(CLOSES)
    return OPENS in rest or (not closed and output.prompt.rstrip().endswith(OPENS))


def split(output: Output) -> Split:
    """Split an output into its reasoning block and its answer, and count the tokens of each."""
    answer, tokens = answer_of(output), output.reasoning_tokens
    reasoned = CLOSES in output.text
    if tokens is None and _is_open(output):
        tokens = output.output_tokens
    elif tokens is None:
        tokens = output.tokens_before(len(output.text) - len(answer)) if reasoned else 0
    rest = None if tokens is None else output.output_tokens - tokens
    return Split(answer=answer, reasoning_tokens=tokens, answer_tokens=rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthReport:
    """Four things that belong beside every score, and the split into reasoning and answer.

    Attributes:
        outputs: How many.
        cap_tokens: The cap, as seen from the outputs that reached it; None if none did, or if
            those that did have several lengths.
        lengths: Tokens at each of `QUANTILES`.
        mean_tokens: Tokens used on average.
        at_cap: Outputs that reached the cap.
        stop_reasons: Outputs by what ended them.
        reasoning_tokens: Their mean; None where some output's could not be told.
        answer_tokens: The same for what is not reasoning.
    """

    outputs: int
    cap_tokens: int | None
    lengths: dict[str, int]
    mean_tokens: float
    at_cap: int
    stop_reasons: dict[str, int]
    reasoning_tokens: float | None
    answer_tokens: float | None

    @property
    def share_at_cap(self) -> float:
        """The truncation rate."""
        return self.at_cap / self.outputs


def report_lengths(outputs: Sequence[Output]) -> LengthReport:
    """Report the lengths of at least one output."""
    lengths = np.array([output.output_tokens for output in outputs])
    capped = {output.output_tokens for output in outputs if output.at_cap}
    splits = [split(output) for output in outputs]
    return LengthReport(
        outputs=len(outputs),
        cap_tokens=capped.pop() if len(capped) == 1 else None,
        lengths={
            name: int(np.quantile(lengths, share, method="inverted_cdf"))
            for name, share in QUANTILES.items()
        },
        mean_tokens=float(lengths.mean()),
        at_cap=sum(output.at_cap for output in outputs),
        stop_reasons=dict(Counter(output.stop_reason for output in outputs).most_common()),
        reasoning_tokens=_mean([part.reasoning_tokens for part in splits]),
        answer_tokens=_mean([part.answer_tokens for part in splits]),
    )


def _mean(counts: Sequence[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return sum(known) / len(known) if len(known) == len(counts) else None
