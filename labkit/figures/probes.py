"""What the stack did with each probe, coloured by what it said, with the evidence in the row.

Each row opens in place, so it needs no script: it works by touch, from the keyboard and on paper.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from labkit.charts.style import by_number, rows_of

SECTION = "fallbacks"

_WORDS = {
    "refused": "refused",
    "warned": "warned",
    "silent": "silent",
    "not_askable": "not askable",
    None: "–",
}
_DID = {True: "did as asked", False: "did something else", None: ""}
_LONGEST = 1500  # characters of one finding; a traceback would fill the page


def render(results: Mapping[str, Any]) -> str:
    """Return a matrix with a row a probe and a column each for this run and the source chapter."""
    rows = sorted(rows_of(results["fallbacks"]), key=by_number)
    key = "".join(f'<li data-outcome="{name}">{_WORDS[name]}</li>' for name in list(_WORDS)[:3])
    return (
        f'<div class="labkit-probes" role="group" aria-label="{escape(_description(rows))}">'
        f'<ul class="labkit-probes-key" aria-label="Colours">{key}</ul>'
        '<p class="labkit-probe-head" aria-hidden="true">'
        "<span>asked for</span><span>this run</span><span>source chapter</span></p>"
        f"{''.join(map(_row, rows))}</div>"
    )


def _row(row: Mapping[str, Any]) -> str:
    source = row.get("source_outcome")
    return (
        '<details class="labkit-probe"><summary>'
        f"<span>{row['number'] or '–'}. {escape(row['asked'])}</span>"
        f"{_cell(row['outcome'], _DID[row['did_it']], where='this run')}"
        f"{_cell(source, '', where='source chapter')}"
        f"</summary>{_evidence(row)}</details>"
    )


def _cell(outcome: str | None, did: str, *, where: str) -> str:
    word = _WORDS[outcome]
    # What went on and did something else is marked by more than a colour.
    mark = "✕ " if did == _DID[False] else ""
    effect = f"<small>{mark}{did}</small>" if did and outcome != "refused" else ""
    return (
        f'<span class="labkit-probe-cell" data-outcome="{outcome or ""}">'
        f'<span class="visually-hidden">{where}: </span>{word}{effect}</span>'
    )


def _evidence(row: Mapping[str, Any]) -> str:
    found = {
        "probe": row["probe"],
        "the stack said": row.get("said") or "nothing",
        "a stand-in": row.get("stand_in"),
        "why it could not be asked": row.get("why_not_askable"),
        **{str(key).replace("_", " "): value for key, value in row["evidence"].items()},
    }
    parts = "".join(
        f"<dt>{escape(name)}</dt><dd>{_said(value)}</dd>"
        for name, value in found.items()
        if value not in (None, "", [], {})
    )
    return f"<dl>{parts}</dl>"


def _said(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return escape(short)


def _description(rows: list[dict[str, Any]]) -> str:
    counts = [
        f"{sum(row['outcome'] == name for row in rows)} {word}"
        for name, word in _WORDS.items()
        if name is not None
    ]
    substituted = sum(bool(row["substituted"]) for row in rows)
    return (
        f"Matrix of {len(rows)} probes in this run: {', '.join(counts)}; {substituted} went on and "
        "did something else. Each row opens to its evidence."
    )
