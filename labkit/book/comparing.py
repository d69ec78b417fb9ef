"""The page that sets the published run beside the reader's own: records, rows, explanations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labkit import record
from labkit.book.choosing import PUBLISHED, last_own_run
from labkit.book.tables import cell, table
from labkit.comparison import EXPLAINING, SectionChange, compare_sections
from labkit.errors import ResultsError
from labkit.files import find_root, shown
from labkit.results import read_results

TITLE = "# This run compared with yours\n\n"
_HOW_TO_MAKE_ONE = """\
There is no run of your own yet. This makes one, and builds the book from it:

```sh
make chapter              # every experiment, at the size of the published run
make quick                # the same at its smallest
labkit chapter --profile gpu   # on a CUDA device
```

This page then shows the two runs side by side: which fields of their records differ and what each
difference changes, which rows came out otherwise, and which of the fields explain it. Two runs of
any kind are compared on the command line with `labkit record diff`.
"""
_LONGEST = 60  # characters of a value in a cell; the records have it in full
_ROWS = 60  # rows of a section that are listed; the rest are counted


def describe_comparison(run_dir: Path, *, root: Path | None = None) -> str:
    """Return the page that compares the published run with the reader's own.

    Args:
        run_dir: The run that the book shows; the other of the two is found.
        root: The clone.
    """
    top = root or find_root()
    published = top / PUBLISHED
    is_published = run_dir.name.startswith("published-")
    own = last_own_run(root=top) if is_published else run_dir
    if own is None:
        return TITLE + _HOW_TO_MAKE_ONE
    left = run_dir if is_published else published
    try:
        return TITLE + compare_runs(left, own)
    except ResultsError as error:
        return (
            f"{TITLE}{shown(left)} and {shown(own)} cannot be compared.\n\n```text\n{error}\n```\n"
        )


def compare_runs(left: Path, right: Path) -> str:
    """Return how two runs differ, and what explains the rows that changed.

    Args:
        left: The folder of the published run.
        right: That of the reader's own.

    Raises:
        ResultsError: If a record or results cannot be read.
    """
    results = read_results(left), read_results(right)
    measured = (
        record.read_measured(right) if results[1]["preservation"] else record.NOTHING_MEASURED
    )
    diff = record.diff_records(record.read_record(left), record.read_record(right), measured)
    changes = compare_sections(*results, differences=diff.differences)
    head = (
        f"On the left stands `{shown(left)}`, on the right `{shown(right)}`. By their records the "
        f"two had *{diff.outcome}*.\n\n"
    )
    return head + _fields(diff) + "".join(_section(change) for change in changes)


def _fields(diff: record.RecordDiff) -> str:
    rows = [
        [f"`{d.field}`", _short(d.left), _short(d.right), d.effect, _text(d.reason)]
        for d in diff.differences
    ]
    same = "No field that both recorded differs.\n" if not rows else ""
    listed = (
        table(["Field", "Published", "Yours", "Changes", "How that is known"], rows) if rows else ""
    )
    unseen = ", ".join(f"`{name}`" for name in diff.not_compared)
    rest = f"\nNeither record says: {unseen}.\n" if unseen else ""
    return f"## Fields that differ\n\n{same}{listed}{rest}\n"


def _section(change: SectionChange) -> str:
    head = f"## {change.section.replace('_', ' ').capitalize()}\n\n"
    if change.lacking:
        return f"{head}{change.lacking.capitalize()} does not have this section.\n\n"
    counts = (
        f"Of {change.rows} rows {len(change.changed)} came out otherwise, and {change.moved} moved "
        "in their decimals only.\n\n"
    )
    if not change.changed and not change.moved:
        return f"{head}All {change.rows} rows are alike.\n\n"
    shown_rows = [
        [f"`{row.name}`", "; ".join(f"{f}: {_short(a)} → {_short(b)}" for f, a, b in row.fields)]
        for row in change.changed[:_ROWS]
    ]
    listed = table(["Row", "Published → yours"], shown_rows) if shown_rows else ""
    left_out = len(change.changed) - len(shown_rows)
    rest = f"\n{left_out} further rows changed.\n" if left_out else ""
    return f"{head}{counts}{_explained(change)}\n\n{listed}{rest}\n"


def _explained(change: SectionChange) -> str:
    if not change.explained_by:
        return (
            "**Explained by none of the fields that differ.** Either the experiment is not "
            "repeatable, or something changed that the records do not hold."
        )
    by_effect = [
        f"{', '.join(f'`{name}`' for name in names)} ({EXPLAINING[effect]})"
        for effect, names in change.explained_by.items()
    ]
    return f"**Explained by** {'; '.join(by_effect)}."


def _short(value: Any) -> str:
    text = cell(value)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return _text(text)


def _text(text: str) -> str:
    """Return a text with nothing in it that a page would take for markup."""
    for sign in "\\`*_<>[]$#{}":
        text = text.replace(sign, f"\\{sign}")
    return text if "\\|" in text else text.replace("|", "\\|")
