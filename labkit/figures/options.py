"""Every registered option with its kind and what was found of it, model by model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from labkit.charts.style import sentence_of
from labkit.figures._capabilities import (
    NOT_APPLICABLE,
    NOT_TESTED,
    Column,
    columns,
    registered,
)
from labkit.knobs import Knob

ORIGINS = ("run", "verdicts", "stacks", "families")
_KEY = ("preserving", "different artefact", "undetermined", NOT_APPLICABLE, NOT_TESTED)


def render(results: Mapping[str, Any]) -> str:
    """Return the matrix, and behind it the table of every single finding."""
    knobs, found = registered(), columns(results)
    return (
        f'<div class="labkit-options" role="group" aria-label="{escape(_words(knobs, found))}">'
        f"{_matrix(knobs, found)}{_behind(knobs, found)}</div>"
    )


def _matrix(knobs: Sequence[Knob], found: Sequence[Column]) -> str:
    heads = "".join(
        f'<th scope="col">{escape(column.model)}<small>{escape(column.source)}</small></th>'
        for column in found
    )
    rows = "".join(_row(knob, found) for knob in knobs)
    key = "".join(f'<li data-verdict="{word}">{word}</li>' for word in _KEY)
    return (
        f'<ul class="labkit-options-key" aria-label="Colours">{key}</ul>'
        '<div class="pst-scrollable-table-container" tabindex="0">'
        '<table class="table labkit-options-matrix">'
        f'<thead><tr><th scope="col">option</th><th scope="col">kind</th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _row(knob: Knob, found: Sequence[Column]) -> str:
    cells = "".join(f"<td>{_cell(column, knob)}</td>" for column in found)
    return (
        f'<tr><th scope="row"><code>{escape(knob.name)}</code></th>'
        f"<td>{escape(knob.kind)}</td>{cells}</tr>"
    )


def _cell(column: Column, knob: Knob) -> str:
    return "".join(
        f'<span data-verdict="{escape(word)}">{escape(word)}'
        f"{f' ×{times}' if times > 1 else ''}</span>"
        for word, times in column.words_for(knob)
    )


def _behind(knobs: Sequence[Knob], found: Sequence[Column]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(item.option)}</code></td><td>{escape(column.model)}</td>"
        f"<td>{escape(item.at)}</td><td>{escape(item.verdict)}</td>"
        f"<td>{escape(column.source)}</td></tr>"
        for knob in knobs
        for column in found
        for item in column.of(knob)
    )
    return (
        '<details class="labkit-table"><summary>Every finding</summary>'
        '<div class="pst-scrollable-table-container" tabindex="0"><table class="table">'
        "<thead><tr><th>option</th><th>model</th><th>at</th><th>verdict</th><th>from</th></tr>"
        f"</thead><tbody>{rows}</tbody></table></div></details>"
    )


def _words(knobs: Sequence[Knob], found: Sequence[Column]) -> str:
    untested = [knob.name for knob in knobs if not any(column.of(knob) for column in found)]
    rest = (
        f" Not tested on any of them: {sentence_of(untested)}."
        if untested
        else " Each was tested on at least one of them."
    )
    return f"Matrix of {len(knobs)} options by {len(found)} models, with verdicts in words.{rest}"
