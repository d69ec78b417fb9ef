"""Capacity against length for real checkpoints, and the source's figures made again.

Nothing is run: everything follows from configs and from the numbers that the source prints, so
the section is the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from labkit.errors import EvidenceError
from labkit.evidence import Design, Rung, Trials, effective_context
from labkit.experiments._section import as_profile, run_section
from labkit.experiments.fingerprints import read_specs
from labkit.files import data_file, load_json_strict
from labkit.planning import (
    Pool,
    equal_length_bound,
    load_printed,
    need_of,
    pool_of_bytes,
    recompute,
)
from labkit.planning.printed import AGREEMENTS, PrintedFigure
from labkit.profiles import Profile
from labkit.progress import Progress, tell
from labkit.spec import ModelSpec

SECTION: Final = "capacity_and_cost"
POOL_BYTES: Final = 16 * 2**30
"""Set aside for the cache; large enough for one sequence of the longest of the ten."""
FIRST_TOKENS: Final = 256
UNSTATED_END_TOKENS: Final = 131_072


def run(
    profile: str | Profile = "quick",
    run_dir: str | Path | None = None,
    *,
    pool_bytes: int = POOL_BYTES,
    progress: Progress = tell,
) -> dict[str, Any]:
    """Compute the section and return it.

    Args:
        profile: The profile in force; it is only recorded.
        run_dir: The run's folder; "" is the scratch run, None stores nothing.
        pool_bytes: Bytes that the checkpoints' sequences share.
        progress: Called after each part.

    Raises:
        PlanningError: If the pool is not usable, or the file of printed figures is broken.
        EvidenceError: If the file of trials and comparisons is.
    """
    return run_section(
        SECTION,
        lambda: _compute(pool_of_bytes(pool_bytes), progress=progress),
        profile=as_profile(profile),
        run_dir=run_dir,
        parameters_passed={"pool_bytes": pool_bytes} if pool_bytes != POOL_BYTES else None,
    )


def _compute(pool: Pool, *, progress: Progress) -> dict[str, Any]:
    rows = [_figure_row(figure) for figure in load_printed(_reference("printed_figures.json"))]
    progress(1, 3, "printed figures")
    specs = read_specs([data_file("configs")])
    growth = [point for spec in specs for point in _growth(spec, pool)]
    progress(2, 3, "capacity against length")
    contexts, comparisons = _evidence(_reference("evidence_cases.json"))
    progress(3, 3, "evidence")
    agreements = Counter(row["agreement"] for row in rows)
    return {
        "rows": rows,
        "growth": growth,
        "contexts": contexts,
        "comparisons": comparisons,
        "summary": {
            "figures": len(rows),
            **{word.replace(" ", "_"): agreements[word] for word in AGREEMENTS},
            "pool_bytes": int(pool.size.value),
            "pool_gib": int(pool.size.value) / 2**30,
            "checkpoints": len({point["checkpoint"] for point in growth}),
            "two_bounds": len({p["checkpoint"] for p in growth if p["surely"] != p["at_most"]}),
            "comparisons": len(comparisons),
            "labels_off_the_ladder": sum(row["off_the_ladder"] for row in comparisons),
        },
    }


def _reference(name: str) -> Path:
    return data_file("reference", name)


def _figure_row(figure: PrintedFigure) -> dict[str, Any]:
    made = recompute(figure)
    return {
        "figure": figure.key,
        "printed": figure.printed,
        "ours": made.shown,
        "agreement": made.agreement,
        # Not quoted by name, so one object: each scalar of a row is stored in the notebook.
        "about": {
            "topic": figure.key.partition(".")[0],
            "place": figure.place,
            "what": figure.what,
            "unit": figure.unit,
            "low": float(made.low),
            "high": float(made.high),
            "label": made.ours.label,
            "why": figure.why,
        },
    }


def _growth(spec: ModelSpec, pool: Pool) -> list[dict[str, Any]]:
    """Return the bounds of one checkpoint from a short length to its last position."""
    end = spec.max_position or UNSTATED_END_TOKENS
    original = spec.rope_scaling.original_max_position if spec.rope_is_extension else None
    window = spec.sliding_window.size if spec.sliding_window.enabled else None
    lengths = {length for length in (end, original, window) if length and length <= end}
    length = FIRST_TOKENS
    while length < end:
        lengths.add(length)
        length *= 2
    points = []
    for tokens in sorted(lengths):
        bound = equal_length_bound(pool, need_of(pool, tokens, spec=spec))
        points.append(
            {
                "checkpoint": spec.name,
                "tokens": tokens,
                "surely": bound.surely,
                "at_most": bound.at_most,
                "label": bound.label,
                "extended": original is not None and tokens > original,
                "why": bound.why,
            }
        )
    return points


def _evidence(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the brackets and the rungs of the source's long-context chapters."""
    remedy = "Restore it from the repository."
    cases = load_json_strict(path, what=path.name, error=EvidenceError, remedy=remedy)
    try:
        contexts = [_context_row(case) for case in cases["contexts"]]
        return contexts, [_comparison_row(case) for case in cases["comparisons"]]
    except (KeyError, TypeError) as error:
        raise EvidenceError(
            f"{path.name} must hold contexts and comparisons; got {error!r}. {remedy}"
        ) from error


def _context_row(case: dict[str, Any]) -> dict[str, Any]:
    cells = [Trials(**cell) for cell in case["cells"]]
    bracket = effective_context(cells, threshold=case["threshold"])
    return {
        "case": case["key"],
        "what": case["what"],
        "place": case["place"],
        "threshold": float(bracket.threshold),
        "last_pass": bracket.last_pass,
        "first_fail": bracket.first_fail,
        "range": str(bracket),
        "why": case["why"],
    }


def _comparison_row(case: dict[str, Any]) -> dict[str, Any]:
    design = Design(factors=case["factors"])
    words = [word for rung in Rung for word in (rung.words, rung.words.split()[0])]
    next_rung = Rung(min(design.rung + 1, max(Rung)))
    return {
        "case": case["key"],
        "what": case["what"],
        "place": case["place"],
        "printed_label": case["printed_label"],
        "off_the_ladder": case["printed_label"] not in [*words, "none"],
        "label": design.rung.words,
        "missing": list(design.missing_for(next_rung)),
        "why": case["why"],
    }
