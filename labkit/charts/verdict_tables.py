"""The verdict benchmark as tables: what is too small to see, widths, capacities, the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from labkit.charts.style import Section, rows_of
from labkit.charts.tables import NOTHING
from labkit.harness.verdict import in_words

_WIDTH, _CAPACITY = "quantised_weights:bits=", "expert_capacity:factor="


def too_small_table(found: Section) -> pd.DataFrame:
    """Return one row for each change that float32 cannot show, the largest first.

    Its effect is what stays of it in float64, in units of float32's own rounding.
    """
    rows = [row for row in rows_of(found) if row["small"] and row["precision"] == "float32"]
    rows.sort(key=lambda row: -row["effect"])
    return _table(
        "change",
        [
            {
                "change": row["case"],
                "model": row["subject"],
                "effect (float32 roundings)": in_words(row["effect"]),
                "ratio in float32": in_words(row["ratio"]),
            }
            for row in rows
        ],
    )


def widths_table(found: Section) -> pd.DataFrame:
    """Return how many outputs kept every token at each width of the weights, in float16."""
    rows = _of(found, _WIDTH)
    widths = sorted({_number(row, _WIDTH) for row in rows}, reverse=True)
    cells = {(_number(row, _WIDTH), row["subject"]): _kept(row) for row in rows}
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    return _table(
        "bits",
        [
            {"bits": f"{width:g}", **{s: cells.get((width, s), NOTHING) for s in subjects}}
            for width in widths
        ],
    )


def experts_table(found: Section) -> pd.DataFrame:
    """Return what a bound on the experts did at each factor, in float16 and float32."""
    rows = sorted(_of(found, _CAPACITY), key=lambda row: -_number(row, _CAPACITY))
    fine = {row["case"]: row for row in _of(found, _CAPACITY, precision="float32")}
    return _table(
        "capacity factor",
        [
            {
                "capacity factor": f"{_number(row, _CAPACITY):g}",
                "identical": f"{row['identical']} of {row['runs']}",
                "ratio in float16": in_words(row["ratio"]),
                "ratio in float32": in_words(fine[row["case"]]["ratio"]),
                "verdict": row["answers"]["growth"],
            }
            for row in rows
        ],
    )


def reference_table(found: Section) -> pd.DataFrame:
    """Return how far each float64 reference is from one kept in doubles throughout."""
    shares = found["reference_share"].items()
    rows = [{"model": name, "distance (float32 roundings)": in_words(v)} for name, v in shares]
    return _table("model", rows)


def _of(found: Section, start: str, *, precision: str = "float16") -> list[dict[str, Any]]:
    rows = [row for row in rows_of(found) if row["precision"] == precision]
    return [row for row in rows if row["case"].startswith(start)]


def _number(row: dict[str, Any], start: str) -> float:
    return float(row["case"].removeprefix(start))


def _kept(row: dict[str, Any]) -> str:
    return f"{row['identical']} of {row['runs']}, ratio {in_words(row['ratio'])}"


def _table(first: str, rows: Sequence[dict[str, str]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, dtype=object).set_index(first)
    return table.rename_axis(index=None, columns=first)
