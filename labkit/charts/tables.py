"""Results as plain tables, with the units in the column names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from labkit.charts.style import OUTCOME_WORDS, Section, by_number, plain_bytes, rows_of

NOT_STATED = "not stated"
NOTHING = "–"


def fingerprint_table(section: Section) -> pd.DataFrame:
    """Return what each configuration decides, a checkpoint a row."""
    rows = rows_of(section)
    return _table(
        rows,
        {
            "checkpoint": lambda row: row["name"],
            "attention": lambda row: _stated(row.get("attention_kind")),
            "heads (query/KV)": lambda row: (
                f"{_stated(row.get('num_attention_heads'))}/{_stated(row.get('num_kv_heads'))}"
            ),
            "head width": lambda row: _stated(row.get("head_dim")),
            "cache per token": lambda row: _bytes(row.get("kv_bytes_per_token")),
            "cache, full context": lambda row: _bytes(row.get("cache_bytes_full_context")),
            "positions": lambda row: _thousands(row.get("max_position")),
            "position kind": lambda row: _stated(row.get("position_kind")),
            "window": _window,
            "RoPE scaling": _rope,
            "soft-caps (attention/final)": lambda row: _pair(
                row.get("attn_logit_softcap"), row.get("final_logit_softcap")
            ),
            "experts (used)": _experts,
        },
    )


def preservation_table(section: Section) -> pd.DataFrame:
    """Return one row an option: what stayed the same, how far it moved, and the verdict."""
    return _table(
        rows_of(section),
        {
            "option": lambda row: row.get("label") or row["knob"],
            "kind": lambda row: row["kind"],
            "identical": lambda row: f"{row['identical']} of {row['runs']}",
            "rounding ratio": _ratio,
            "ratio in float32": lambda row: (
                NOTHING if row.get("declared") else _number(row.get("ratio_float32"))
            ),
            "verdict": _verdict,
            "first difference (mean, share of output)": lambda row: _percent(
                row.get("mean_first_divergence_share")
            ),
            "largest margin there": lambda row: _number(row.get("max_margin_at_divergence")),
            "exact ties": lambda row: _stated(row.get("exact_ties"), missing=NOTHING),
            "decided by arithmetic": lambda row: (
                f"{row['arithmetic_decided']} of {row['diverged']}" if row["diverged"] else NOTHING
            ),
            "largest logit change": lambda row: _number(row.get("max_logit_change")),
            "KL divergence (nats; mean, 1 % to 99 %)": _kl,
        },
    )


def verdict_table(section: Section) -> pd.DataFrame:
    """Return each option's verdict as the sentence that states its numbers."""
    return _table(
        rows_of(section),
        {
            "option": lambda row: row.get("label") or row["knob"],
            "verdict, in words": lambda row: row["sentence"],
        },
    )


def fallbacks_table(section: Section) -> pd.DataFrame:
    """Return one row a probe: what it did here and in the source chapter."""
    return _table(
        sorted(rows_of(section), key=by_number),
        {
            "#": lambda row: _stated(row["number"], missing=NOTHING),
            "asked for": lambda row: row["asked"],
            "here": lambda row: _outcome(row["outcome"]),
            "did as asked": lambda row: {True: "yes", False: "no"}.get(row["did_it"], NOTHING),
            "substituted": lambda row: "yes" if row.get("substituted") else "no",
            "source chapter": lambda row: _outcome(row.get("source_outcome")),
            "said, and noted": _said_and_noted,
        },
    )


def admission_table(section: Section) -> pd.DataFrame:
    """Return one row a request: its decision, with every reason."""
    return _table(
        sorted(rows_of(section), key=by_number),
        {
            "#": lambda row: _stated(row["number"], missing=NOTHING),
            "request": lambda row: row["title"],
            "decision": lambda row: row["outcome"],
            "reasons": lambda row: (
                "; ".join(f"{reason['rule']}: {reason['message']}" for reason in row["reasons"])
                or NOTHING
            ),
            "mirrors probe": lambda row: _stated(row.get("mirrors_probe"), missing=NOTHING),
        },
    )


def answers_table(section: Section) -> pd.DataFrame:
    """Return one row a probe: what the stack did, and what admission says beforehand."""
    return _table(
        sorted(rows_of(section), key=by_number),
        {
            "#": lambda row: _stated(row["number"], missing=NOTHING),
            "asked for": lambda row: row["asked"],
            "the stack": lambda row: _outcome(row["outcome"]),
            "did as asked": lambda row: {True: "yes", False: "no"}.get(row["did_it"], NOTHING),
            "admission beforehand": lambda row: row["decision"],
            "reasons": lambda row: (
                "; ".join(f"{reason['rule']}: {reason['message']}" for reason in row["reasons"])
                or NOTHING
            ),
        },
    )


def allocation_table(proof: Section) -> pd.DataFrame:
    """Return one row an architecture whose twin ran: plan, live cache, and public estimators.

    Bytes are over all layers of the twin; the estimators are shown as multiples of what the
    cache holds at its fullest, past the twin's windows.
    """
    rows = [row for row in rows_of(proof) if row["live_bytes"] or row["status"] == "no cache"]
    columns: dict[str, Callable[[dict[str, Any]], object]] = {
        "architecture": lambda row: row["model_type"],
        "plan and cache": lambda row: row["status"],
        "cache, bytes": lambda row: f"{row['live_total']:,}",
        "plan, bytes": lambda row: _stated(_thousands(row["planned_total"])),
        "past the window": lambda row: _stated(row["long_status"], missing=NOTHING),
    }
    for name in sorted(proof.get("estimators", {})):
        columns[f"{name} / cache"] = partial(_times, name=name)
    return _table(rows, columns)


def allocation_counts(proof: Section) -> pd.DataFrame:
    """Return how often the plan and each estimator give the bytes that the cache holds."""
    rows = [row for row in rows_of(proof) if row["live_bytes_long"]]
    said = {"labkit's plan": [row["planned_bytes_long"] for row in rows]}
    for name in sorted(proof.get("estimators", {})):
        said[name] = [row["estimates"][name] for row in rows]
    counts = [{"who": who, **_judged(rows, answers)} for who, answers in said.items()]
    return pd.DataFrame(counts, dtype=object).set_index("who").rename_axis(None, axis="index")


def _judged(rows: list[dict[str, Any]], said: list[object]) -> dict[str, object]:
    """Count answers by how they stand to the live bytes, and give the widest misses."""
    pairs = zip(rows, said, strict=True)
    ratios = [value / _fullest(row) for row, value in pairs if isinstance(value, int)]
    return {
        "caches": len(rows),
        "exact": sum(ratio == 1 for ratio in ratios),
        "too much": sum(ratio > 1 for ratio in ratios),
        "too little": sum(ratio < 1 for ratio in ratios),
        "no answer": len(rows) - len(ratios),
        "largest / cache": f"{max(ratios):.2f}" if ratios else NOTHING,
        "smallest / cache": f"{min(ratios):.2f}" if ratios else NOTHING,
    }


def _fullest(row: Mapping[str, Any]) -> int:
    """Return the bytes at the moment a token is computed, when a window is full."""
    waiting = row["long_status"] == "between steps"
    full: int = row["planned_bytes_long"] if waiting else row["live_bytes_long"]
    return full


def _times(row: Mapping[str, Any], *, name: str) -> str:
    said = row.get("estimates", {}).get(name)
    if not row["live_bytes_long"]:
        return NOTHING
    return f"{said / _fullest(row):.2f}" if isinstance(said, int) else "no answer"


def _table(
    rows: list[dict[str, Any]], columns: Mapping[str, Callable[[dict[str, Any]], object]]
) -> pd.DataFrame:
    table = pd.DataFrame(
        {name: [cell(row) for row in rows] for name, cell in columns.items()}, dtype=object
    )
    first = next(iter(columns))
    # The index's name in the corner, or pandas gives it a header row of its own.
    return table.set_index(first).rename_axis(index=None, columns=first)


def _stated(value: object, *, missing: str = NOT_STATED) -> object:
    return missing if value is None else value


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}"


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1%}"


def _thousands(value: int | None) -> str:
    return NOT_STATED if value is None else f"{value:,}"


def _bytes(value: float | None) -> str:
    return NOT_STATED if value is None else plain_bytes(value)


def _pair(first: float | None, second: float | None) -> str:
    if first is None and second is None:
        return "none"
    return " / ".join("none" if value is None else f"{value:g}" for value in (first, second))


def _window(row: Mapping[str, Any]) -> str:
    size, layers = row.get("window_size"), row.get("window_sliding_layers")
    if size is None:
        return "none"
    if row.get("window_enabled") is False:
        return f"{size:,} listed, off"
    if layers is None:
        return f"{size:,}, layers not stated"
    return f"{size:,} on {layers} of {row.get('num_layers')} layers"


def _rope(row: Mapping[str, Any]) -> str:
    kind, factor = row.get("rope_kind"), row.get("rope_factor")
    if kind in (None, "none"):
        return "none"
    text = str(kind) if factor is None else f"{kind} by {factor:g}"
    if row.get("rope_original_max_position") is not None:
        text += f", first trained at {row['rope_original_max_position']:,}"
    return f"{text} (extension)" if row.get("rope_is_extension") else text


def _experts(row: Mapping[str, Any]) -> str:
    number, used = row.get("num_experts"), row.get("experts_per_token")
    return "none" if not number else f"{number} ({_stated(used)})"


def _kl(row: Mapping[str, Any]) -> str:
    if row.get("kl_p01") is None or row.get("kl_p99") is None:
        return _number(row.get("kl_mean"))
    return f"{row['kl_mean']:.2g} ({row['kl_p01']:.2g} to {row['kl_p99']:.2g})"


def _ratio(row: Mapping[str, Any]) -> str:
    if row.get("declared") or row.get("ratio") is None:
        return NOTHING
    if row.get("ratio_low") is None or row.get("ratio_high") is None:
        return _number(row["ratio"])
    return f"{row['ratio']:.3g} ({row['ratio_low']:.3g} to {row['ratio_high']:.3g})"


def _verdict(row: Mapping[str, Any]) -> object:
    verdict = _stated(row.get("verdict"), missing=NOTHING)
    return f"{verdict} (declared)" if row.get("declared") else verdict


def _outcome(value: str | None) -> str:
    return NOTHING if value is None else OUTCOME_WORDS.get(value, value)


def _said_and_noted(row: Mapping[str, Any]) -> str:
    """Join the first line that the stack said and our notes, each cut so that the row stays low."""
    parts = [_first_line(row.get("said"))]
    if row.get("stand_in"):
        parts.append(f"stand-in: {row['stand_in']}")
    if row.get("why_not_askable"):
        parts.append(f"not askable here: {row['why_not_askable']}")
    return "; ".join(_cut(part, limit=100) for part in parts if part) or NOTHING


def _first_line(said: str | None) -> str:
    return next((line.strip() for line in (said or "").splitlines() if line.strip()), "")


def _cut(text: str, *, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
