"""Reports from other projects, reproduced on tiny models: is the difference rounding or not?"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import tiny
from conftest import read_cases
from verdict_bench.running import baseline_of
from verdict_bench.subjects import on_common_grid, tiny_model

from labkit.harness import Lane, compare, judge
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
    """What users had to settle among themselves, the verdict settles from two precisions."""
    changes = case["config"] | EAGER_EXPERTS.get(case["model"], {})
    model = on_common_grid(tiny_model(KINDS[case["model"]], **changes))
    lanes = []
    with contextlib.ExitStack() as stack:
        for precision, reference in LANES:
            plain, exact = (
                tiny.backend(dtype=name, model=model) for name in (precision, reference)
            )
            for text in case.get("under", []):
                plain = stack.enter_context(parse_option(text).applied(plain))
                exact = stack.enter_context(parse_option(text).applied(exact))
            lanes.append(_lane(case["options"], plain, exact, precision))

    assert judge(lanes).verdict == case["verdict"]


def _lane(options: list[str], plain: Any, exact: Any, precision: str) -> Lane:
    prompts = [
        Prompt(name=f"p{i}", ids=tuple(tiny.prompt_ids(plain, tokens=40, seed=i))) for i in range(4)
    ]
    baselines = {p.name: baseline_of(plain, exact, p, steps=6) for p in prompts}
    with contextlib.ExitStack() as stack:
        variant = plain
        for text in options:
            variant = stack.enter_context(parse_option(text).applied(variant))
        runs = {name: compare(variant, [base])[0] for name, base in baselines.items()}
    return Lane(precision=precision, runs=runs, baselines=baselines)
