"""The tables of the verdict benchmark: what they count, and what the stored one bears out."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from verdict_bench.doubles import Doubles

from labkit.charts import experts_table, reference_table, too_small_table, widths_table
from labkit.files import data_file


def _row(case: str, precision: str = "float16", **changes: Any) -> dict[str, Any]:
    plain = {"subject": "Llama", "small": False, "effect": 5.0, "ratio": 1.0, "identical": 6}
    answers = {"growth": "preserving"}
    return plain | {"case": case, "precision": precision, "runs": 6, "answers": answers} | changes


def test_only_what_float32_cannot_show_is_too_small() -> None:
    """Each such change stands once, with its size, the largest first."""
    rows = [
        _row("typed short", "float32", small=True, effect=0.08),
        _row("typed shorter", "float32", small=True, effect=0.44, ratio=1.031),
        _row("typed short", "float16", small=True, effect=0.08),
        _row("plain to see", "float32"),
    ]
    table = too_small_table({"rows": rows})

    assert list(table.index) == ["typed shorter", "typed short"]
    assert list(table.loc["typed shorter"]) == ["Llama", "0.44", "1.03"]


def test_widths_fall_and_a_model_that_lacks_one_says_so() -> None:
    """Rows go from the widest grid to the narrowest, columns are models."""
    rows = [
        _row("quantised_weights:bits=4", identical=0, ratio=231.57),
        _row("quantised_weights:bits=12", ratio=1.3),
        _row("quantised_weights:bits=12", subject="GPT-2", ratio=1.5),
        _row("quantised_weights:bits=12", "float32", ratio=9e4),
    ]
    table = widths_table({"rows": rows})

    assert list(table.index) == ["12", "4"]
    assert list(table["Llama"]) == ["6 of 6, ratio 1.30", "0 of 6, ratio 232"]
    assert list(table["GPT-2"]) == ["6 of 6, ratio 1.50", "–"]


def test_capacities_stand_beside_their_verdict() -> None:
    """A factor's ratio in float32 is its own, whatever order the rows have."""
    different = {"growth": "different artefact"}
    rows = [
        _row("expert_capacity:factor=0.5", ratio=205.8, identical=0, answers=different),
        _row("expert_capacity:factor=4.0"),
        _row("expert_capacity:factor=4.0", "float32", ratio=1.0),
        _row("expert_capacity:factor=0.5", "float32", ratio=425288.0),
    ]
    table = experts_table({"rows": rows})

    assert list(table.index) == ["4", "0.5"]
    assert list(table.loc["0.5"]) == ["0 of 6", "206", "425,000", "different artefact"]


def test_the_reference_has_a_row_for_each_model() -> None:
    """The table holds what the benchmark measured of each."""
    table = reference_table({"reference_share": {"GPT-2": 0.0, "Llama": 0.3281}})

    assert list(table.iloc[:, 0]) == ["0.00", "0.33"]


def test_the_stored_benchmark_bears_out_the_page() -> None:
    """The lab's rule raised no false alarm and missed nothing; every other criterion erred."""
    stored = json.loads(data_file("verdicts", "verdicts.json").read_text(encoding="utf-8"))
    wrong = {
        name: count["false_alarms"] + count["missed"]
        for name, count in stored["summary"]["criteria"].items()
    }

    assert wrong["growth"] == 0
    assert all(wrong[name] for name in ("equal tokens", "allclose", "mean KL", "logprobs close"))
    assert stored["summary"]["criteria"]["growth"]["undetermined"]


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: x.float(),
        lambda x: x.to(torch.float32),
        lambda x: x.to(dtype=torch.float32),
        lambda x: torch.softmax(x, dim=-1, dtype=torch.float32),
        lambda x: torch.nn.functional.softmax(x, dim=-1, dtype=torch.float32),
    ],
)
def test_a_double_stays_one(cast: Any) -> None:
    """The ways in which layers of the library cast to float32 leave a double as it is."""
    value = torch.rand(3, dtype=torch.float64)

    assert cast(value).dtype is torch.float32
    with Doubles():
        assert cast(value).dtype is torch.float64
    assert cast(value).dtype is torch.float32
