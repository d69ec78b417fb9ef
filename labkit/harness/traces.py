"""Greedy decoding with margins, and following a given continuation step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labkit.backends import Backend, Logits
from labkit.errors import LabError, NotApplied, PromptError


class NotFinite(LabError):
    """A stack returned logits that are not numbers; no comparison can pass on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A greedy continuation.

    Attributes:
        tokens: The chosen token at each step (of equal logits, the lowest id).
        margins: The top logit minus the second at each step, in logits.
    """

    tokens: tuple[int, ...]
    margins: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The run everything is compared with, for one prompt.

    Attributes:
        prompt: Name of the prompt.
        ids: Its token ids.
        trace: The greedy continuation.
        logits: The baseline's logits, shape `(steps, vocab)`; read a step at a time.
        reference: Those of the run in higher precision, along the same continuation.
        error_rms: Root mean square of their centred difference at each step.
        error_max: Its largest entry at each step.
    """

    prompt: str
    ids: tuple[int, ...]
    trace: Trace
    logits: Logits
    reference: Logits
    error_rms: NDArray[np.float64]
    error_max: NDArray[np.float64]


def top_two(logits: Logits) -> tuple[int, float]:
    """Return the greedy token of a row of logits and its margin over the next.

    Of equal logits the lowest id wins, so an exact tie has margin 0 and a stable winner.
    """
    top = int(np.argmax(logits))
    second = max(
        logits[:top].max(initial=-np.inf),
        logits[top + 1 :].max(initial=-np.inf),
    )
    return top, float(logits[top]) - float(second)


def greedy(
    backend: Backend,
    ids: Sequence[int],
    *,
    steps: int,
    on_step: Callable[[int, Logits], None] | None = None,
) -> Trace:
    """Decode greedily for a fixed number of steps; an end-of-text token does not stop it.

    Args:
        backend: The stack to run.
        ids: The prompt's token ids.
        steps: Tokens to generate.
        on_step: Receives each step's logits, shape `(vocab,)`; nothing is kept otherwise.

    Returns:
        The tokens and the margin at each step.

    Raises:
        PromptError: If the prompt is empty or `steps` is not positive.
        NotFinite: If a logit is NaN or infinite.
    """
    _check_request(ids, steps)
    session = backend.session(capacity_tokens=len(ids) + steps)
    tokens: list[int] = []
    margins: list[float] = []
    feed = list(ids)
    for step in range(steps):
        logits = session.next_logits([feed])[0]
        require_finite(logits, step=step)
        token, margin = top_two(logits)
        if on_step is not None:
            on_step(step, logits)
        tokens.append(token)
        margins.append(margin)
        feed = [token]
    return Trace(tokens=tuple(tokens), margins=tuple(margins))


def _check_request(ids: Sequence[int], steps: int) -> None:
    if not ids:
        raise PromptError("a prompt must hold at least one token; got an empty one.")
    if steps < 1:
        raise PromptError(f"at least one token must be generated; got steps={steps}.")


def require_finite(logits: Logits, *, step: int) -> None:
    """Fail closed on NaN or infinite logits.

    Raises:
        NotFinite: Naming the step and the count.
    """
    if not np.isfinite(logits).all():
        bad = int(np.size(logits) - np.isfinite(logits).sum())
        raise NotFinite(
            f"all logits must be finite numbers; step {step} has {bad} that are NaN or infinite. "
            "Nothing that follows can be trusted: look for overflow in this precision."
        )


def follow(
    backend: Backend,
    prompts: Sequence[Sequence[int]],
    continuations: Sequence[Sequence[int]],
    *,
    expect: Mapping[str, object] | None = None,
) -> Iterator[Logits]:
    """Run prompts along given continuations and yield each step's logits.

    As long as a stack agrees with a continuation, these are also the logits of its own free
    run: one pass shows where it would leave, and how far it is from the function after that.

    Args:
        backend: The stack to run.
        prompts: Token ids, one list a sequence; several run as one batch.
        continuations: Tokens to follow, of one length.
        expect: What the session must be seen to do once it has run.

    Yields:
        Shape `(len(prompts), vocab)`; the first belongs to the end of the prompts.

    Raises:
        NotApplied: If the session is seen to do something else than `expect`.
        NotFinite: If a logit is NaN or infinite.
    """
    steps = len(continuations[0])
    longest = max(len(ids) for ids in prompts)
    session = backend.session(capacity_tokens=longest + steps)
    feeds = [list(ids) for ids in prompts]
    for step in range(steps):
        logits = session.next_logits(feeds)
        require_finite(logits, step=step)
        yield logits
        feeds = [[continuation[step]] for continuation in continuations]
    _require_applied(session.observed, expect or {})


def _require_applied(observed: Mapping[str, object], expect: Mapping[str, object]) -> None:
    wrong = {key: observed.get(key) for key, value in expect.items() if observed.get(key) != value}
    if wrong:
        seen = ", ".join(f"{key}={value!r}" for key, value in wrong.items())
        asked = ", ".join(f"{key}={expect[key]!r}" for key in wrong)
        raise NotApplied(f"the option was not applied: asked for {asked}; the stack did {seen}.")


def first_divergence(baseline: Sequence[int], variant: Sequence[int]) -> int | None:
    """Return the first step at which two outputs differ, or `None` if they are equal.

    A shorter output differs at the step where it ends.
    """
    for step, (left, right) in enumerate(zip(baseline, variant, strict=False)):
        if left != right:
            return step
    if len(baseline) != len(variant):
        return min(len(baseline), len(variant))
    return None


def near_tie_share(margins: Sequence[float], threshold: float) -> float:
    """Return the share of steps whose margin is at most `threshold` logits.

    Raises:
        PromptError: If there is no step.
    """
    if not margins:
        raise PromptError("a share of steps needs at least one margin; got none.")
    return sum(margin <= threshold for margin in margins) / len(margins)
