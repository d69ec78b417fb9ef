"""The pages that say where the book's numbers come from: the run, and the stored files."""

from __future__ import annotations

from collections.abc import Mapping

from labkit import record
from labkit.book.tables import cell, table, two_columns
from labkit.files import sha256_of, shown
from labkit.origins import stored_files, versions_of
from labkit.results import SECTIONS
from labkit.staged import Shown, admonition

_LAYERS = {
    "identity": "What was evaluated",
    "substrate": "Below it",
    "execution": "How it was computed",
    "evaluation": "How it was judged",
}
_HEAD = "# About this run\n\n"
_STORED = """\
# Stored measurements

Some figures are the same for every run of the book: what they show takes hours, another program or
other releases, so it was measured once and stored in the lab. The run that a book shows leaves them
alone. Each file is listed with what it says of itself and with the command that makes it.

"""


def describe_run(
    run: record.RunRecord | None, results: Mapping[str, object], *, lacks: Shown
) -> str:
    """Return the page that says where a run's numbers come from."""
    gaps = _gaps(lacks)
    if run is None:
        return f"{_HEAD}{gaps}Nothing is known of this run: it has no record that could be read.\n"
    changed = {
        change.field: f"asked for {cell(change.requested)}, resolved to {cell(change.resolved)}, "
        f"seen {cell(change.observed)}"
        for change in run.changes
    }
    timings = {name: _elapsed(results.get(name)) for name in SECTIONS}
    layers = (two_columns(title, _in_force(run, layer)) for layer, title in _LAYERS.items())
    parts = [
        f"{_HEAD}{gaps}Every measured number of these pages comes from the run below, but for "
        "those of the [stored measurements](stored_measurements). A dash stands for what was not "
        "recorded.\n",
        two_columns("Run", _first_facts(run)),
        *layers,
        two_columns("Changed on the way from the request to the live object", changed),
        two_columns("Seconds by experiment", timings),
        "## Files\n\n" + table(["File", "Bytes", "SHA-256"], _files(run)),
    ]
    return "\n".join(parts)


def _gaps(lacks: Shown) -> str:
    if not lacks.lacks:
        return ""
    return admonition(lacks.summary()) + "\n"


def _first_facts(run: record.RunRecord) -> dict[str, object]:
    return {
        "Run": run.id,
        "Status": run.status,
        "Started (UTC)": run.started_utc,
        "Finished (UTC)": run.finished_utc,
        "Seconds": run.elapsed_s,
        "Identity of the artefact": record.identify(run).sha256,
    }


def _in_force(run: record.RunRecord, layer: str) -> dict[str, object]:
    """Return a layer's fields with the values that counted."""
    stated = (name for name, _ in run.all_stated() if name.startswith(f"{layer}."))
    return {name.partition(".")[2]: run.in_force(name) for name in stated}


def _elapsed(section: object) -> object:
    return section.get("elapsed_s") if isinstance(section, Mapping) else None


def _files(run: record.RunRecord) -> list[list[object]]:
    return [[f"`{item.path}`", item.size_bytes, f"`{item.sha256}`"] for item in run.artefacts]


def describe_stored() -> str:
    """Return the page that lists the stored measurements."""
    parts = [
        f"({file.key})=\n## {file.shown_on[0].upper()}{file.shown_on[1:]}: `{shown(file.path)}`\n\n"
        f"Made by `{file.made_by}`.\n\n"
        + "".join(f"- {fact}\n" for fact in versions_of(file))
        + f"- SHA-256 `{sha256_of(file.path)}`\n"
        for file in stored_files().values()
    ]
    return _STORED + "\n".join(parts)
