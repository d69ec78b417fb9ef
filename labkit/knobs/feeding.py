"""Options that feed the same tokens in another way: recomputed, reused, verified, in company."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from labkit.backends import Backend, Logits
from labkit.backends.transformers import TransformersBackend, TransformersSession
from labkit.errors import KnobError, NotApplicable
from labkit.knobs.registry import Row, knob


@dataclass(slots=True, kw_only=True)
class Recomputing(TransformersSession):
    """A session without a cache: each call runs the whole sequence again."""

    _ids: Tensor | None = None

    def _new_cache(self) -> None:
        return None

    def _feed(self, ids: Tensor) -> Tensor:
        self._ids = ids if self._ids is None else torch.cat([self._ids, ids], dim=1)
        self._seen = 0
        return self._forward(self._ids)


@knob(
    kind="runtime",
    label="no cache",
    rows=[Row(table="more")],
    expect=lambda group: {"cache": "NoneType"},
)
def no_cache(backend: TransformersBackend) -> Iterator[TransformersBackend]:
    """Keep no keys and values: run the whole sequence again for each token."""
    require_dynamic(backend, "no_cache")
    if backend.prefill_chunk is not None:
        raise NotApplicable("no_cache feeds the sequence at once; it cannot be chunked as well.")
    yield replace(backend, session_kind=Recomputing)


@dataclass(slots=True, kw_only=True)
class Reusing(TransformersSession):
    """A session whose prompt begins with a prefix that another request left in the cache."""

    share: float

    def _feed(self, ids: Tensor) -> Tensor:
        if self._seen:
            return TransformersSession._feed(self, ids)
        kept = max(1, min(int(ids.shape[1] * self.share), ids.shape[1] - 1))
        _record_past(self._cache)
        # The other request shares the prefix and then goes on with something else.
        other = torch.cat([ids[:, :kept], ids[:, kept:].flip(1)], dim=1)
        self._forward(other)
        self._cache.crop(-(ids.shape[1] - kept))
        self._seen = kept
        logits = TransformersSession._feed(self, ids[:, kept:])
        self.observed["prefix_tokens"] = kept
        return logits


def _proper_share(*, share: float) -> None:
    if not 0 < share < 1:
        raise KnobError(f"prefix_cache: share must lie between 0 and 1; got share={share}.")


@knob(
    kind="runtime",
    label="warm prefix of {share:.0%}",
    rows=[Row(table="more")],
    check=_proper_share,
)
def prefix_cache(
    backend: TransformersBackend, *, share: float = 0.5
) -> Iterator[TransformersBackend]:
    """Take the first `share` of the prompt from the cache of a request that went on otherwise.

    The row compares warm with cold. Cold with cold is `repeated`; two warm runs are equal bit
    for bit on a stack that repeats itself, which a test shows.
    """
    require_dynamic(backend, "prefix_cache")
    yield replace(backend, session_kind=functools.partial(Reusing, share=share))


@knob(kind="control", label="the same again", rows=[Row(table="more")])
def repeated(backend: Backend) -> Iterator[Backend]:
    """Change nothing: whether the stack repeats itself, cold and cold."""
    yield backend


@dataclass(slots=True, kw_only=True)
class Rewinding(TransformersSession):
    """A session whose latest tokens can be taken out of the cache again."""

    def _new_cache(self) -> Any:
        cache = TransformersSession._new_cache(self)
        _record_past(cache)
        return cache

    def _take_back(self, tokens: int) -> None:
        if self._seen:  # a window's layer that is still empty cannot be cropped, not even by 0
            self._cache.crop(-tokens)
        self._seen -= tokens


@dataclass(slots=True, kw_only=True)
class Verifying(Rewinding):
    """A session that checks several tokens in one pass and takes rejected drafts back."""

    tokens: int
    rejected: int
    _block: Tensor | None = None
    _undo: int = 0

    def _feed(self, ids: Tensor) -> Tensor:
        if not self._seen:
            logits = TransformersSession._feed(self, ids)
            self._take_back(0)
            return logits
        if self._block is None or self._block.shape[1] == self.tokens:
            self._take_back(self.rejected if self._undo else 0)
            self._block = ids
        else:
            self._take_back(self._undo)
            self._block = torch.cat([self._block, ids], dim=1)
        drafts = self._block[:, :1].expand(-1, self.rejected)
        self._undo = self._block.shape[1] + self.rejected
        logits = self._forward(torch.cat([self._block, drafts], dim=1), after=self.rejected)
        self.observed["verified_tokens"] = max(
            self._block.shape[1], int(str(self.observed.get("verified_tokens", 0)))
        )
        return logits


def _sensible_passes(*, tokens: int, rejected: int) -> None:
    if tokens < 1 or rejected < 0:
        raise KnobError(
            "verification: tokens must be >= 1, rejected >= 0; got "
            f"tokens={tokens}, rejected={rejected}."
        )


@knob(
    kind="runtime",
    label="{tokens} tokens a pass, {rejected} drafts rejected",
    rows=[Row({"tokens": k}, table="more") for k in (2, 4, 8)],
    check=_sensible_passes,
)
def verification(
    backend: TransformersBackend, *, tokens: int = 4, rejected: int = 2
) -> Iterator[TransformersBackend]:
    """Check up to `tokens` drafts in one pass, as prompt lookup and assisted decoding do.

    Each pass also carries `rejected` wrong drafts, which are then taken out of the cache. The
    accepted tokens are the baseline's own, so this is the arithmetic of a perfect assistant;
    which drafts an assistant proposes changes the speed, not what is accepted.
    """
    require_dynamic(backend, "verification")
    yield replace(
        backend,
        session_kind=functools.partial(Verifying, tokens=tokens, rejected=rejected),
    )


@dataclass(slots=True, kw_only=True)
class Accompanied(TransformersSession):
    """A session that runs its rows in a batch of strangers and answers for its own only."""

    others: int
    _strangers: list[list[int]] = field(default_factory=list)
    _turn: int = 0

    def next_logits(self, rows: Sequence[Sequence[int]]) -> Logits:
        """See `labkit.backends.Session.next_logits`."""
        if not self._started:
            first = list(rows[0])
            self._strangers = [_rotated(first, by=i + 1) for i in range(self.others)]
            feeds = [s[len(s) * i // (2 * self.others) :] for i, s in enumerate(self._strangers)]
        else:
            feeds = [[s[self._turn % len(s)]] for s in self._strangers]
            self._turn += 1
        answer: Logits = TransformersSession.next_logits(self, [*rows, *feeds])[: len(rows)]
        return answer


def _rotated(ids: list[int], *, by: int) -> list[int]:
    turn = by * max(len(ids) // 7, 1) % len(ids)
    return ids[turn:] + ids[:turn]


def _someone(*, others: int) -> None:
    if others < 1:
        raise KnobError(f"in_company: others must be at least 1; got others={others}.")


@knob(
    kind="runtime",
    label="among {others} others",
    rows=[Row({"others": n}, table="more") for n in (1, 3, 7)],
    check=_someone,
    expect=lambda group, *, others: {"rows": len(group) + others},
)
def in_company(backend: TransformersBackend, *, others: int = 3) -> Iterator[TransformersBackend]:
    """Run each prompt in a batch of `others` strangers of other lengths; only it is compared."""
    yield replace(backend, session_kind=functools.partial(Accompanied, others=others))


@dataclass(slots=True, kw_only=True)
class LeftPadded(TransformersSession):
    """A session whose prompt stands behind padding."""

    pads: int
    positions: bool
    mask: bool

    def _as_batch(self, rows: Sequence[Sequence[int]]) -> Tensor:
        if self._started:
            return TransformersSession._as_batch(self, rows)
        filled = [[0] * self.pads + list(row) for row in rows]
        ids = TransformersSession._as_batch(self, filled)
        self._padding = torch.full((len(rows),), self.pads, device=ids.device)
        return ids

    def _inputs(self, ids: Tensor, start: int) -> dict[str, Any]:
        inputs = TransformersSession._inputs(self, ids, start)
        if not self.positions:
            places = torch.arange(start, self._seen, device=ids.device)
            inputs["position_ids"] = places.expand(ids.shape[0], -1)
        if not self.mask:
            del inputs["attention_mask"]
        return inputs


def _some_pads(*, pads: int, **_: bool) -> None:
    if pads < 1:
        raise KnobError(f"left_padding: pads must be at least 1; got pads={pads}.")


@knob(
    kind="runtime",
    label="{pads} pads (positions {positions}, mask {mask})",
    rows=[
        Row(table="more"),
        Row({"positions": False}, table="more"),
        Row({"mask": False}, kind="model", table="more"),
    ],
    check=_some_pads,
    expect=lambda group, *, mask, **_: {"mask": "padding" if mask else "library"},
)
def left_padding(
    backend: TransformersBackend, *, pads: int = 8, positions: bool = True, mask: bool = True
) -> Iterator[TransformersBackend]:
    """Pad on the left, with or without corrected positions, with or without a mask.

    Without positions a rotary model computes the same function (only differences of positions
    matter to it) and one with learned positions another; without a mask both do.
    """
    yield replace(
        backend,
        session_kind=functools.partial(LeftPadded, pads=pads, positions=positions, mask=mask),
    )


@dataclass(slots=True, kw_only=True)
class Truncated(TransformersSession):
    """A session that drops the beginning of a prompt."""

    keep: float

    def _as_batch(self, rows: Sequence[Sequence[int]]) -> Tensor:
        if not self._started:
            rows = [list(row)[-max(1, int(len(row) * self.keep)) :] for row in rows]
        return TransformersSession._as_batch(self, rows)


def _proper_part(*, keep: float) -> None:
    if not 0 < keep < 1:
        raise KnobError(f"truncation: keep must lie between 0 and 1; got keep={keep}.")


@knob(
    kind="model",
    label="last {keep:.0%} of the prompt",
    rows=[Row(table="more")],
    check=_proper_part,
)
def truncation(backend: TransformersBackend, *, keep: float = 0.5) -> Iterator[TransformersBackend]:
    """Drop the beginning of each prompt, as a stack does that cuts what does not fit."""
    yield replace(backend, session_kind=functools.partial(Truncated, keep=keep))


def _record_past(cache: Any) -> None:
    # A window's layers forget what has left it, unless they are told that it may come back.
    if hasattr(cache, "activate_past_recording"):
        cache.activate_past_recording()


def require_dynamic(backend: TransformersBackend, name: str) -> None:
    """Refuse a backend whose cache cannot grow and shrink."""
    if backend.cache != "dynamic":
        raise NotApplicable(f"{name} needs a dynamic cache; got cache={backend.cache!r}.")
