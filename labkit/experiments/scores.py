"""From text to score: the frozen outputs under every extractor, every cap and every contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labkit.errors import OutputsError
from labkit.experiments._section import as_profile, run_section
from labkit.experiments._variants import REFERENCE, VARIANTS
from labkit.files import data_file
from labkit.outputs import OUTPUTS_NAME, OutputSet, read_outputs
from labkit.paired import CONTRACTS, Limits, measure_impact, pair_outputs
from labkit.profiles import Profile
from labkit.progress import Progress, tell
from labkit.scoring import (
    EXTRACTORS,
    Extractor,
    Knee,
    KneeLimits,
    Score,
    calibrate,
    report_lengths,
    score,
    spread,
)

SECTION = "from_text_to_score"
CAPS = (8, 16, 24, 32, 48, 64, 80, 96)
EXTRACTOR = "last_number"
# Declared before the outputs were made: one item of a half, and one output in ten.
ENOUGH = KneeLimits(tolerance_points=4.2, max_share_at_cap=0.1)
LIMITS = Limits(max_lost=2, max_net_loss=5.0, margin=5.0)


def run(
    profile: str | Profile = "quick",
    run_dir: str | Path | None = None,
    *,
    folder: Path | None = None,
    progress: Progress = tell,
) -> dict[str, Any]:
    """Score the frozen outputs and return the section; no model runs.

    Args:
        profile: The profile in force; it is only recorded.
        run_dir: The run's folder; "" is the scratch run, None stores nothing.
        folder: Holds a folder of outputs a variant; the lab's own frozen ones by default.
        progress: Called after each variant.

    Raises:
        OutputsError: If the reference's outputs are missing, or a file is not whole.
    """
    sets = load_sets(folder or data_file("outputs"))
    return run_section(
        SECTION,
        lambda: _measure(sets, progress=progress),
        profile=as_profile(profile),
        run_dir=run_dir,
        parameters_passed={"folder": str(folder)} if folder else None,
    )


def load_sets(folder: Path) -> dict[str, OutputSet]:
    """Return the outputs of every variant that a folder holds, the reference first.

    Raises:
        OutputsError: If the reference is not among them, or a file is not whole.
    """
    if not (folder / REFERENCE / OUTPUTS_NAME).is_file():
        raise OutputsError(
            f"a folder of variants must hold {REFERENCE}/{OUTPUTS_NAME}; got {folder.name}/ "
            "without it. Make it with `labkit outputs float32`."
        )
    names = [name for name in VARIANTS if (folder / name / OUTPUTS_NAME).is_file()]
    return {name: read_outputs(folder / name) for name in names}


def _measure(sets: Mapping[str, OutputSet], *, progress: Progress) -> dict[str, Any]:
    reference = sets[REFERENCE]
    scores = [score(reference.items, rule) for rule in EXTRACTORS.values()]
    impacts = []
    for done, name in enumerate(sets, start=1):
        if name != REFERENCE:
            impacts.append(_compare(name, reference, sets[name], EXTRACTORS[EXTRACTOR]))
        progress(done, len(sets), name)
    lengths = report_lengths(reference.items)
    knee = calibrate(reference.items, EXTRACTORS[EXTRACTOR], CAPS, ENOUGH)
    return {
        "rows": [one.to_json() for one in scores],
        "disputed": _disputed(reference, scores),
        "lengths": [_lengths_row(name, outputs) for name, outputs in sets.items()],
        "sweep": _sweep_rows(knee),
        "impacts": impacts,
        "summary": {
            "items": len(reference.items),
            "clusters": len({item.cluster for item in reference.items}),
            "spread": asdict(spread(scores)),
            "at_cap": lengths.at_cap,
            "share_at_cap": lengths.share_at_cap,
            "cap": lengths.cap_tokens,
            "median_tokens": lengths.lengths["median"],
            "knee": knee.cap,
            "knee_confirmed": knee.confirmed,
            "enough": asdict(ENOUGH),
            "limits": asdict(LIMITS),
            "variants": {row["variant"]: _headline(row) for row in impacts},
        },
    }


def _compare(
    name: str, reference: OutputSet, changed: OutputSet, rule: Extractor
) -> dict[str, Any]:
    impact = measure_impact(pair_outputs(reference, changed), rule)
    verdicts = {
        contract: check(reference, changed, rule, LIMITS) for contract, check in CONTRACTS.items()
    }
    return {
        "variant": name,
        "label": VARIANTS[name].label,
        **impact.to_json(with_items=False),
        "verdicts": [verdict.to_json() for verdict in verdicts.values()],
        "changed_items": [
            {
                "item": item.id,
                "before": item.before.answer,
                "after": item.after.answer,
                "change": {1: "gained", -1: "lost"}[item.change],
            }
            for item in impact.items
            if item.change
        ],
    }


def _headline(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a comparison that the book quotes."""
    cells, clustered = row["transitions"], row["clustered"] or {}
    return {
        "different": row["divergence"]["different"],
        "different_percent": row["divergence"]["percent"],
        "lost": cells["right_wrong"],
        "gained": cells["wrong_right"],
        "net_points": row["net_points"],
        "p_value": row["p_value"],
        "exact_low": row["exact"]["low"],
        "exact_high": row["exact"]["high"],
        "clustered_low": clustered.get("low"),
        "clustered_high": clustered.get("high"),
        **{verdict["contract"]: verdict["answer"] for verdict in row["verdicts"]},
    }


def _disputed(reference: OutputSet, scores: list[Score]) -> list[dict[str, Any]]:
    """Return the items that some rules call right and others do not, with what each read."""
    rows = []
    for position, output in enumerate(reference.items):
        judged = {one.extractor.name: one.items[position] for one in scores}
        if len({item.right for item in judged.values()}) > 1:
            rows.append(
                {
                    "item": output.id,
                    "reference": output.reference,
                    "text": output.text,
                    **{name: f"{i.answer or '–'} ({i.outcome})" for name, i in judged.items()},
                }
            )
    return rows


def _lengths_row(name: str, outputs: OutputSet) -> dict[str, Any]:
    report = report_lengths(outputs.items)
    return {
        "variant": name,
        "label": VARIANTS[name].label,
        **asdict(report),
        "share_at_cap": report.share_at_cap,
    }


def _sweep_rows(knee: Knee) -> list[dict[str, Any]]:
    halves = {"calibration": knee.calibration, "held out": knee.held_out}
    return [
        {"half": half, **asdict(point), "knee": point.cap == knee.cap}
        for half, points in halves.items()
        for point in points
    ]
