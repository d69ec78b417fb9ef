"""Read where an option's output left the baseline: both texts, and the best tokens there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from labkit.charts.style import labels_of, rows_of

SECTION = "preservation"
SCRIPT = "labkit-reader.js"
_OLD = (
    "This run was recorded before the texts around a difference were kept. "
    "Run it again with labkit chapter to read them here."
)
_NONE = "No run left the baseline, so there is nothing to read here."
_FIELDS = ("first_divergence", "margin_at_divergence", "rank", "baseline_token", "variant_token")


def render(results: Mapping[str, Any]) -> str:
    """Return the reader with the differences of a run inside, or why there is none."""
    section = results["preservation"]
    left = [run for run in rows_of(section, "runs") if run["first_divergence"] is not None]
    readable = [run for run in left if run.get("context")]
    if not readable:
        return f'<p class="labkit-reader" data-state="empty">{_OLD if left else _NONE}</p>'
    labels = labels_of(rows_of(section))
    entries = [
        {
            "option": labels.get(run["knob"], run["knob"]),
            "kind": run["kind"],
            "prompt": run["prompt"],
            **{field: run.get(field) for field in _FIELDS},
            **run["context"],
        }
        for run in readable
    ]
    # "</" would end the script block early.
    inert = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    first = entries[0]
    return (
        f'<div class="labkit-reader" role="group" data-script="{SCRIPT}" data-state="waiting" '
        f'aria-label="Reader of {len(entries)} first differences, by option and prompt">'
        '<div class="labkit-reader-choice">'
        '<label>Option <select name="option"></select></label>'
        '<label>Prompt <select name="prompt"></select></label></div>'
        f'<p class="labkit-on-paper">On paper this is one of {len(entries)} differences; on the '
        "site each can be read.</p>"
        '<div class="labkit-reader-shown" aria-live="polite">'
        f"<p>{escape(first['option'])}, {escape(first['prompt'])}: the baseline said "
        f"<code>{escape(str(first['baseline_token']))}</code>, this run "
        f"<code>{escape(str(first['variant_token']))}</code>.</p></div>"
        f'<script type="application/json">{inert}</script></div>'
    )
