"""Render a chat under a clock that is ahead: what changes was written from the clock."""

from __future__ import annotations

import contextlib
import datetime
import importlib
from collections.abc import Sequence
from typing import Any
from unittest import mock

from labkit.probes.roles import Message, Render

CLOCK_SHIFT = datetime.timedelta(days=400)  # moves the year, the month and the day
_CLOCK_OWNER = "transformers.utils.chat_template_utils"  # lends templates their clock


def render_later(render: Render, chat: Sequence[Message]) -> str:
    """Return a chat as it is rendered with the clock moved on.

    A release that lends templates no clock has nothing to move.
    """
    with _moved_clock():
        return render(chat)


def _moved_clock() -> contextlib.AbstractContextManager[Any]:
    try:
        owner = importlib.import_module(_CLOCK_OWNER)
    except ImportError:  # releases up to 4.44
        return contextlib.nullcontext()
    if not hasattr(owner, "datetime"):
        return contextlib.nullcontext()
    return mock.patch.object(owner, "datetime", _Later)


class _Later(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> _Later:
        return cls.fromtimestamp((super().now(tz) + CLOCK_SHIFT).timestamp(), tz)
