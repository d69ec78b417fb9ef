"""Small made-up results sections with the shapes of results.json, for tests of what shows them."""

from __future__ import annotations

import json
import math
import random
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from made_outputs import tokenised

from labkit.experiments import capacity_and_cost as computed
from labkit.experiments import scores
from labkit.outputs import OUTPUTS_NAME, Output, write_outputs
from labkit.results import load_schema

STEPS = 48
PROMPTS = 12
_OPTIONS = [
    # knob, kind, label, logit change, float32 ratio, ratio, share of runs that diverge
    ("chunked_prefill_64", "runtime", "prefill in chunks of 64", 0.02, 1.02, 0.99, 0.0),
    ("chunked_prefill_512", "runtime", "prefill in chunks of 512", 0.0, 1.0, 1.0, 0.0),
    ("eager_attention", "runtime", "eager attention", 0.018, 0.99, 1.01, 0.1),
    ("sdpa_kernel_math", "runtime", "SDPA, math backend", 0.015, 0.98, 1.0, 0.0),
    ("static_cache", "runtime", "static cache", 0.011, 1.01, 0.99, 0.0),
    ("padded_batch_4", "runtime", "padded batch", 0.027, 1.03, 1.04, 0.25),
    ("float32", "runtime", "float32 arithmetic", 0.024, None, 0.02, 0.0),
    ("quantised_weights_8", "model", "int8 weights", 0.41, 41000.0, 18.0, 0.4),
    ("quantised_weights_4", "model", "int4 weights", 6.5, 420000.0, 269.0, 1.0),
    ("window_64_0", "model", "window of 64", 13.5, 910000.0, 640.0, 1.0),
    ("window_64_4", "model", "window of 64, 4 sinks", 4.1, 300000.0, 210.0, 1.0),
    ("rope_scaling_2_0", "model", "RoPE scaling removed", 8.0, 610000.0, 400.0, 1.0),
    ("window_4096_0", "control", "window longer than the prompt", 0.012, 1.0, 1.0, 0.0),
]
_PRECISIONS = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}


def least_section(name: str, *, elapsed_s: float) -> dict[str, Any]:
    """Make the smallest section that the schema accepts: no rows, and each required key."""
    frame = load_schema()
    _, own = frame["properties"][name]["anyOf"]
    base = frame["$defs"]["section"]
    required = {*base["required"], *own.get("required", ())}
    schemas = {**base["properties"], **own.get("properties", {})}
    made = {key: _least(schemas.get(key, {})) for key in required}
    return made | {"rows": [], "summary": _least(schemas["summary"]), "elapsed_s": elapsed_s}


def _least(schema: dict[str, Any]) -> Any:
    """Make the smallest value of a schema; what has no type of its own is a one."""
    if "enum" in schema:
        return schema["enum"][0]
    properties = schema.get("properties", {})
    whole = {key: _least(properties.get(key, {})) for key in schema.get("required", ())}
    made = {"array": [], "object": whole, "string": "", "number": 1.0, "boolean": False}
    return made.get(schema.get("type"), 1)


def preservation() -> dict[str, Any]:
    """Make a preservation section: options that round, options that do not, and a control."""
    chance = random.Random(26)
    rows, runs, lanes = [], [], []
    for knob, kind, label, change, fine, ratio, share in _OPTIONS:
        of_knob = [
            _run(knob, kind, prompt=prompt, change=change, share=share, chance=chance)
            for prompt in range(PROMPTS)
        ]
        runs += of_knob
        rows.append(_row(of_knob, label=label, fine=fine, ratio=ratio))
        if fine is not None:
            lanes += _lanes(knob, kind, fine=fine, ratio=ratio)
    margins = [[chance.lognormvariate(0.2, 1.3) for _ in range(STEPS)] for _ in range(PROMPTS)]
    flat = sorted(margin for prompt in margins for margin in prompt)
    return {
        "rows": rows,
        "runs": runs,
        "lanes": lanes,
        "baseline": {
            "prompts": PROMPTS,
            "prompt_tokens": 300,
            "steps": STEPS,
            "dtype": "float16",
            "share_under_0_1": sum(margin < 0.1 for margin in flat) / len(flat),
            "share_under_0_5": sum(margin < 0.5 for margin in flat) / len(flat),
            "median_margin": flat[len(flat) // 2],
            "margins": margins,
        },
        "summary": {
            "runtime_runs": 84,
            "runtime_identical": sum(r["identical"] for r in rows if r["kind"] == "runtime"),
            "model_runs": 60,
            "model_identical": sum(r["identical"] for r in rows if r["kind"] == "model"),
            "control_runs": 12,
            "control_identical": 12,
        },
        "elapsed_s": 61.5,
    }


def _run(
    knob: str, kind: str, *, prompt: int, change: float, share: float, chance: random.Random
) -> dict[str, Any]:
    diverged = chance.random() < share
    step = int(STEPS * chance.random() ** (4 if kind == "model" else 1)) if diverged else None
    tied = kind == "runtime" and chance.random() < 0.5
    margin = 0.0 if tied else chance.random() * (1.7 if kind == "model" else 0.02)
    return {
        "knob": knob,
        "kind": kind,
        "prompt": f"p{prompt + 1:02}",
        "identical": not diverged,
        "first_divergence": step,
        "margin_at_divergence": margin if diverged else None,
        "rank": 2 if diverged else None,
        "baseline_token": " the" if diverged else None,
        "variant_token": " a" if diverged else None,
        "arithmetic_decides": kind == "runtime" if diverged else None,
        "logit_change": change * chance.uniform(0.3, 1.0),
        "ratio": 1.0,
        "kl_mean": 0.001,
        "kl_max": 0.01,
        "elapsed_s": 0.4,
    }


def _row(runs: list[dict[str, Any]], *, label: str, fine: float | None, ratio: float) -> Any:
    diverged = [run for run in runs if not run["identical"]]
    shares = [run["first_divergence"] / STEPS for run in diverged]
    return {
        "knob": runs[0]["knob"],
        "kind": runs[0]["kind"],
        "label": label,
        "params": {},
        "runs": len(runs),
        "identical": len(runs) - len(diverged),
        "diverged": len(diverged),
        "mean_first_divergence_share": sum(shares) / len(shares) if shares else None,
        "max_margin_at_divergence": max(
            (run["margin_at_divergence"] for run in diverged), default=None
        ),
        "exact_ties": sum(run["margin_at_divergence"] == 0 for run in diverged),
        "arithmetic_decided": sum(bool(run["arithmetic_decides"]) for run in diverged),
        "max_logit_change": max(run["logit_change"] for run in runs),
        "ratio": ratio,
        "ratio_low": ratio * 0.96,
        "ratio_high": ratio * 1.05,
        "ratio_float32": fine,
        "growth": None if fine is None else fine / ratio,
        "verdict": "different artefact" if runs[0]["kind"] == "model" else "preserving",
        "sentence": f"{label}: made up for a test.",
    }


def _lanes(knob: str, kind: str, *, fine: float, ratio: float) -> list[dict[str, Any]]:
    lanes = []
    for precision, roundoff in _PRECISIONS.items():
        unit = 6 * roundoff
        # A plateau for what changes the function, the unit itself for what only rounds.
        distance = math.hypot(unit * min(ratio, 1.1), fine * 6 * 2.0**-24 if kind == "model" else 0)
        lanes.append(
            {
                "knob": knob,
                "kind": kind,
                "precision": precision,
                "unit_roundoff": roundoff,
                "distance": distance,
                "ratio": distance / unit,
                "ratio_low": 0.97 * distance / unit,
                "ratio_high": 1.03 * distance / unit,
            }
        )
    return lanes


def fallbacks() -> dict[str, Any]:
    """Make a fallbacks section: thirteen probes, one of them not askable."""
    source = "silent silent refused refused warned warned warned refused refused silent silent"
    outcomes = [*source.split(), "refused", "refused"]
    rows = [
        {
            "number": number,
            "probe": f"probe_{number:02}",
            "asked": f"a thing the stack might not honour, number {number}",
            "outcome": "not_askable" if number == 11 else outcome,
            "did_it": None if number == 11 else outcome == "silent" and number != 2,
            "substituted": number == 2,
            "said": "" if outcome == "silent" else "ValueError: not supported\nmore",
            "evidence": {},
            "stand_in": "a template of our own" if number == 3 else None,
            "why_not_askable": "this device has no such unit" if number == 11 else None,
            "source_outcome": outcome if number < 13 else "warned",
        }
        for number, outcome in enumerate(outcomes, start=1)
    ]
    return {"rows": rows, "summary": {"refused": 6, "warned": 3, "silent": 3}, "elapsed_s": 3.0}


def admission() -> dict[str, Any]:
    """Make an admission section: twelve cases over six rules."""
    rules = ["context", "sampling", "padding", "system_role", "attention", "dtype"]
    rows = []
    for number in range(1, 13):
        reasons = [
            {
                "rule": rule,
                "outcome": "reject" if (number + place) % 3 else "warn",
                "message": f"{rule} asks for {number}",
                "numbers": {"asked": number},
            }
            for place, rule in enumerate(rules)
            if number % (place + 2) == 0
        ]
        outcomes = {reason["outcome"] for reason in reasons}
        outcome = "reject" if "reject" in outcomes else "warn" if outcomes else "accept"
        rows.append(
            {
                "number": number,
                "case": f"case_{number:02}",
                "title": f"a request of kind {number}",
                "spec": "gpt2",
                "request": {},
                "facts": {},
                "outcome": outcome,
                "reasons": reasons,
                "mirrors_probe": number if number < 9 else None,
                "expected": outcome,
            }
        )
    return {"rows": rows, "summary": {"accept": 4, "warn": 2, "reject": 6}, "elapsed_s": 0.01}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCache:
    """A cache that grows with the context, in some of its layers only as far as a window."""

    per_token: int
    window: int | None = None

    def cache_bytes(self, *, tokens: int, batch: int = 1, bytes_per_element: int = 2) -> int:
        """Return the bytes of that cache."""
        held = tokens if self.window is None else (tokens + min(tokens, self.window)) // 2
        return held * batch * self.per_token * bytes_per_element // 2


def fingerprints() -> tuple[dict[str, Any], dict[str, LinearCache]]:
    """Make a fingerprints section and its specs: plain, windowed, extended, and one unread."""
    shapes = [
        # name, bytes per token, positions, window, original length
        ("gpt2", 36_864, 1024, None, None),
        ("pythia-1.4b", 196_608, 2048, None, None),
        ("llama-3.2-1b", 32_768, 131_072, None, 8192),
        ("mistral-7b-v0.1", 131_072, 32_768, 4096, None),
        ("qwen2.5-1.5b", 28_672, 32_768, None, None),
        ("smollm2-135m", 46_080, 8192, None, None),
        ("unread", None, None, None, None),
    ]
    rows, specs = [], {}
    for name, per_token, end, window, original in shapes:
        rows.append(
            {
                "name": name,
                "source": "made up",
                "attention_kind": None if per_token is None else "GQA",
                "num_layers": 12,
                "num_attention_heads": 12,
                "num_kv_heads": 4,
                "head_dim": 64,
                "kv_bytes_per_token": per_token,
                "cache_bytes_full_context": None if end is None else per_token * end,
                "max_position": end,
                "position_kind": "rope",
                "window_size": window,
                "window_enabled": bool(window),
                "window_sliding_layers": None,
                "rope_kind": "llama3" if original else "none",
                "rope_factor": 32.0 if original else None,
                "rope_original_max_position": original,
                "rope_is_extension": bool(original),
                "attn_logit_softcap": None,
                "final_logit_softcap": None,
                "num_experts": None,
                "experts_per_token": None,
            }
        )
        if per_token is not None:
            specs[name] = LinearCache(per_token=per_token, window=window)
    return {"rows": rows, "summary": {"checkpoints": len(rows)}, "elapsed_s": 0.1}, specs


def write_notebook(
    path: Path, bundles: list[dict[str, Any]], *, table: str, glued: dict[str, Any]
) -> None:
    """Write a notebook as if executed, with charts, one table and glued values."""
    outputs = [_output(bundle) for bundle in bundles]
    outputs += [
        _output(
            {f"{_GLUE}text/plain": repr(value)},
            metadata={"scrapbook": {"name": key, "mime_prefix": _GLUE}},
        )
        for key, value in glued.items()
    ]
    cells = [
        {
            "cell_type": "markdown",
            "id": "title",
            "metadata": {},
            "source": f"# {path.stem[3:].capitalize()}\n\nA ratio $e_v / e_b$ and its figures.",
        },
        _code_cell("charts", outputs),
        _code_cell("table", [_output({"text/html": table, "text/plain": "a table"})]),
    ]
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": _KERNEL},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def _output(data: dict[str, Any], *, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": metadata or {}}


def _code_cell(name: str, outputs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": name,
        "metadata": {},
        "execution_count": 1,
        "source": f"show({name!r})",
        "outputs": outputs,
    }


_GLUE = "application/papermill.record/"
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def verdicts() -> dict[str, Any]:
    """Return a small verdict benchmark: one rule that is right, and one that errs both ways."""
    rows = []
    for effect in (None, 0.5, 3.0, 40.0, 500.0, 1e6):
        for precision in ("float16", "float32"):
            same = effect is None
            loud = not same and effect > 100
            rows.append(
                {
                    "subject": "tiny",
                    "case": f"effect {effect}",
                    "truth": "preserves" if same else "defect",
                    "precision": precision,
                    "should_be": "preserving" if same else "different artefact",
                    "small": False,
                    "effect": effect,
                    "effect_here": effect,
                    "answers": {
                        "right": "preserving" if same else "different artefact",
                        "blunt": "different artefact" if same or loud else "preserving",
                        "shy": "undetermined",
                    },
                }
            )
    return {"rows": rows}


def capacity_and_cost() -> dict[str, Any]:
    """Compute the section of capacity and cost; it follows from files and takes no run."""
    return computed.run("quick", None)


def records() -> dict[str, Any]:
    """Make a records section: a run that differs in the arithmetic, and one in the artefact."""
    differences = [
        ("reordered", "execution.attention", "sdpa", "eager", "arithmetic"),
        ("deployed", "execution.window", "none", '{"sinks":4,"size":64}', "artefact"),
        ("deployed", "execution.mask", "library", "imposed", "arithmetic"),
        ("deployed", "substrate.cores", "2", "64", "place"),
    ]
    keys = ("run", "field", "plain", "other", "effect")
    rows = [dict(zip(keys, row, strict=True)) for row in differences]
    findings = [
        {
            "name": "checkpoint",
            "stage": "identity",
            "asks": "It is named.",
            "answer": "missing",
            "found": "not recorded: identity.checkpoint",
        }
    ]
    return {
        "rows": [
            {**row, "name": f"{row['run']}.{row['field']}", "reason": "declared"} for row in rows
        ],
        "runs": [
            {"run": run, "options": [], "identity": 64 * digit, "missing": []}
            for run, digit in (("plain", "a"), ("reordered", "a"), ("deployed", "b"))
        ],
        "preflight": findings,
        "gates": findings,
        "summary": {"runs": 3, "deployed": "another artefact", "deployed_artefact": 1},
        "elapsed_s": 1.5,
    }


def write_variants(folder: Path) -> None:
    """Write outputs of two variants, of which the second loses one item and gains another."""
    for name, wrong in {"float32": {1, 2}, "int8": {2, 3}}.items():
        write_outputs(folder / name / OUTPUTS_NAME, _answered(wrong))


def _answered(wrong: set[int]) -> list[Output]:
    """Make forty outputs of ten clusters that come to their end after 3 to 12 tokens."""
    return [
        tokenised(
            ["so"] * (n % 10 + 1) + [" ####", " 6" if n in wrong else " 5"],
            id=str(n),
            cluster=str(n // 4),
            token_ids=(*range(n % 10 + 2), 6 if n in wrong else 5),
        )
        for n in range(40)
    ]


@cache
def from_text_to_score() -> dict[str, Any]:
    """Score those variants; not to be changed, since it is made once."""
    with tempfile.TemporaryDirectory() as folder:
        write_variants(Path(folder))
        return scores.run(folder=Path(folder))
