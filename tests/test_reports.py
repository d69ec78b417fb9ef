"""Reports from other projects, reproduced on tiny models: is the difference rounding or not?"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import tiny
from support import read_cases
from verdict_bench.readings import judge_staying
from verdict_bench.running import baseline_of
from verdict_bench.subjects import on_common_grid, tiny_model

from labkit.harness import Baseline, Lane, Run, compare, judge
from labkit.harness.traces import NotFinite
from labkit.knobs import Prompt, parse_option

CASES = read_cases("preservation_reports.json")
LANES = (("float16", "float32"), ("float32", "float64"))
KINDS = {"llama": "Llama", "gpt2": "GPT2", "mixtral": "Mixtral"}
EAGER_EXPERTS = {"mixtral": {"experts_implementation": "eager"}}


def _name(case: dict[str, Any]) -> str:
    under = "+".join(case.get("under", []))
    options = "+".join(case["options"])
    return f"{'-'.join(case['report'].split('/')[-3::2])}-{options}{under and f'-under-{under}'}"


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_a_report_gets_the_right_verdict(case: dict[str, Any]) -> None:
    """What stays settles what users argued about, and two precisions never say otherwise."""
    changes = case["config"] | EAGER_EXPERTS.get(case["model"], {})
    model = on_common_grid(tiny_model(KINDS[case["model"]], **changes))
    lanes = []
    with contextlib.ExitStack() as stack:
        for precision, reference in LANES:
            plain, exact = (tiny.backend(dtype=d, model=model) for d in (precision, reference))
            for text in case.get("under", []):
                plain = stack.enter_context(parse_option(text).applied(plain))
                exact = stack.enter_context(parse_option(text).applied(exact))
            baselines = _baselines(plain, exact)
            runs = _runs(case["options"], plain, baselines)
            lanes.append(Lane(precision=precision, runs=runs, baselines=baselines))
        left = {}
        with contextlib.suppress(NotFinite):  # eager attention overflows behind float64 pads
            left = {n: r.distance for n, r in _runs(case["options"], exact, baselines).items()}

    assert judge_staying(*lanes, left) == case["verdict"]
    assert judge(lanes).verdict in (case["verdict"], "undetermined")


def _baselines(plain: Any, exact: Any) -> dict[str, Baseline]:
    prompts = [
        Prompt(name=f"p{i}", ids=tuple(tiny.prompt_ids(plain, tokens=40, seed=i))) for i in range(4)
    ]
    return {p.name: baseline_of(plain, exact, p, steps=6) for p in prompts}


def _runs(options: list[str], plain: Any, baselines: dict[str, Baseline]) -> dict[str, Run]:
    with contextlib.ExitStack() as stack:
        variant = plain
        for text in options:
            variant = stack.enter_context(parse_option(text).applied(variant))
        return {name: compare(variant, [base])[0] for name, base in baselines.items()}
