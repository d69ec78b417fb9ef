"""What sets a deployment's record apart from the plain run's, and the identities of the two."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from labkit.charts.style import rows_of
from labkit.figures._benchmark import table_html

SECTION = "records"
PLAIN, DEPLOYED = "plain", "deployed"
_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_COLUMNS = {
    "field": "field",
    "plain": "plain run",
    "other": "deployment",
    "effect": "changes the",
    "reason": "as is known by",
}
_NONE = "This run made no records of a deployment. Run it again with labkit chapter."


def render(results: Mapping[str, Any]) -> str:
    """Return the table of differences with the identities, or why there is none."""
    section = results["records"]
    if section is None:
        return f'<p data-state="empty">{_NONE}</p>'
    rows = [row for row in rows_of(section) if row["run"] == DEPLOYED]
    cells = [{head: _short(row[key]) for key, head in _COLUMNS.items()} for row in rows]
    identities = {run["run"]: run["identity"] for run in section["runs"]}
    with pd.option_context("display.max_colwidth", None):
        table = table_html(pd.DataFrame(cells).set_index("field"))
    named = ", ".join(
        f"of the {head} <code>{_short(identities[run])}</code>"
        for run, head in ((PLAIN, "plain run"), (DEPLOYED, "deployment"))
    )
    return f"{table}<p>The identity {named}.</p>"


def _short(value: str) -> str:
    """Return a text with the beginnings of its digests, which is enough to tell them apart."""
    return _DIGEST.sub(r"\1…", value)
