"""Sliding and chunked attention: the size, whether it is on, and the layers it names."""

from __future__ import annotations

from typing import Final

from labkit.config_reading.family import Family
from labkit.config_reading.layouts import Layout, repeat_to
from labkit.config_reading.reader import Reader
from labkit.config_reading.types import CHUNKED, FULL, SLIDING, SlidingWindow

PATTERN_KEYS: Final = ("sliding_window_pattern", "_sliding_window_pattern")
NO_WINDOW: Final = SlidingWindow()


def read_window(reader: Reader, family: Family | None, layout: Layout | None) -> SlidingWindow:
    """Read the window; the layers it binds come from the layout where that names them."""
    keys = ("sliding_window",) if family is None else family.window_keys
    switch = reader.flag("use_sliding_window")
    if switch is False and reader.get(keys[0]) == 0:  # how some versions write "off"
        return NO_WINDOW
    size = reader.integer(*keys)
    named = 0 if layout is None else _named_layers(layout)
    if size is None:
        return _without_size(reader, layout, key=keys[0], named=named)
    kind = "chunked" if family is not None and family.window_is_chunk else "sliding"
    if switch is False:
        if named:
            must = f"No layer may slide where a switch turns the window off ({named} do)"
            reader.contradict(must, "use_sliding_window", layout.key if layout else keys[0])
        return SlidingWindow(size=size, scope_from_file="off", kind=kind)
    if layout is not None and (named or _lists_attention_words(layout)):
        return SlidingWindow(
            size=size,
            enabled=named > 0,
            scope_from_file=layout.scope,
            sliding_layers=named,
            kind=kind,
        )
    enabled: bool | None = True
    if switch is None and family is not None and family.window_has_switch:
        enabled = None
        reader.note("`use_sliding_window` is not stated; whether the window applies is open.")
    return SlidingWindow(
        size=size, enabled=enabled, scope_from_file="size_only", sliding_layers=None, kind=kind
    )


def read_window_pattern(reader: Reader, family: Family | None, depth: int | None) -> Layout | None:
    """Return the layers that a pattern or a first windowed layer names, if one does."""
    keys = ("sliding_window",) if family is None else family.window_keys
    present = next((key for key in PATTERN_KEYS if reader.get(key) is not None), None)
    switch = reader.flag("use_sliding_window")
    first = reader.integer("max_window_layers", least=0)
    if depth is None or switch is False or all(reader.get(key) is None for key in keys):
        return None
    if present is not None:
        kinds = _pattern_kinds(reader, present, depth)
        return None if kinds is None else Layout(kinds=kinds, key=present, scope="pattern")
    if switch is True and first is not None:
        kinds = tuple(SLIDING if index >= first else FULL for index in range(depth))
        return Layout(kinds=kinds, key="max_window_layers", scope="pattern")
    return None


def _pattern_kinds(reader: Reader, key: str, depth: int) -> tuple[str, ...] | None:
    """Every N-th layer is full for a number; letters L and G spell a text's period."""
    value = reader.get(key)
    if not isinstance(value, str):
        every = reader.integer(key)
        if every is None:
            return None
        return tuple(SLIDING if (index + 1) % every else FULL for index in range(depth))
    if not value or set(value) - {"L", "G"}:
        reader.refuse(key, value, must="a number or a text of L and G")
        return None
    return repeat_to(tuple(SLIDING if letter == "L" else FULL for letter in value), depth)


def _without_size(reader: Reader, layout: Layout | None, *, key: str, named: int) -> SlidingWindow:
    if layout is None or not named:
        return NO_WINDOW
    if reader.states(key):
        if reader.fields.get(key) is None:
            must = f"`{layout.key}` names {named} windowed layers, so `{key}` must have a size"
            reader.contradict(must, key)
        return NO_WINDOW
    reader.note(f"`{layout.key}` names {named} windowed layers, but no `{key}` is stated.")
    return SlidingWindow(
        enabled=True,
        scope_from_file=layout.scope,
        sliding_layers=named,
        kind="chunked" if CHUNKED in layout.kinds else "sliding",
    )


def _named_layers(layout: Layout) -> int:
    return layout.kinds.count(SLIDING) + layout.kinds.count(CHUNKED)


def _lists_attention_words(layout: Layout) -> bool:
    return layout.key == "layer_types" and FULL in layout.kinds
