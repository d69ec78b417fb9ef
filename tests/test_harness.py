"""Greedy traces, comparison and verdict, on a stack whose logits are known and on a real one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from labkit.backends import Backend, Logits
from labkit.backends.toy import ToyBackend, ToySession
from labkit.errors import NotApplied, PromptError
from labkit.harness import (
    Baseline,
    Lane,
    Run,
    compare,
    first_divergence,
    follow,
    greedy,
    judge,
    near_tie_share,
    summarise_knob,
)
from labkit.harness.compare import (
    OWN_TOKENS,
    centred_difference,
    distance_rms,
    kl_divergence,
)
from labkit.harness.traces import NotFinite, top_two
from labkit.harness.verdict import EQUAL_PARTS, in_words

STEPS = 8
TOKENS = st.lists(st.integers(0, 5), max_size=8)


def baseline_of(backend: Backend, reference: Backend, ids: Sequence[int], name: str) -> Baseline:
    """Run a backend and its reference as the experiment does, keeping the logits in memory."""
    kept: list[Logits] = []
    trace = greedy(backend, ids, steps=STEPS, on_step=lambda _, row: kept.append(row.copy()))
    exact = [row[0] for row in follow(reference, [ids], [trace.tokens])]
    off = [centred_difference(row, right) for row, right in zip(kept, exact, strict=True)]
    return Baseline(
        prompt=name,
        ids=tuple(ids),
        trace=trace,
        logits=np.stack(kept),
        reference=np.stack(exact),
        error_rms=np.asarray([np.sqrt(np.mean(o**2)) for o in off]),
        error_max=np.asarray([np.abs(o).max() for o in off]),
    )


# ---- greedy ------------------------------------------------------------------------------


def test_greedy_follows_the_table() -> None:
    """On a bigram stack each token is the argmax of its predecessor's row."""
    toy = ToyBackend()
    trace = greedy(toy, [3], steps=3)
    expected = [int(toy.table[3].argmax())]
    expected.append(int(toy.table[expected[0]].argmax()))

    assert list(trace.tokens[:2]) == expected
    assert trace.margins[0] == pytest.approx(np.diff(np.sort(toy.table[3])[-2:])[0], rel=1e-6)


def test_greedy_equals_the_library() -> None:
    """Tokens are those of transformers' own greedy generation."""
    backend = tiny.backend()
    ids = tiny.prompt_ids(backend)
    theirs = backend.model.generate(
        torch.tensor([ids]), max_new_tokens=20, min_new_tokens=20, do_sample=False
    )[0, len(ids) :]

    assert list(greedy(backend, ids, steps=20).tokens) == theirs.tolist()


@pytest.mark.parametrize(("ids", "steps", "says"), [([], 4, "empty"), ([3], 0, "steps=0")])
def test_greedy_refuses_nothing_to_do(ids: list[int], steps: int, says: str) -> None:
    """An empty prompt or no step is refused by name."""
    with pytest.raises(PromptError, match=says):
        greedy(ToyBackend(), ids, steps=steps)


@given(st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=40))
def test_top_two_is_the_sorted_pair(values: list[float]) -> None:
    """The token is the first of the largest logits, and the margin reaches the second."""
    row = np.asarray(values, dtype=np.float32)
    token, margin = top_two(row)
    largest, second = sorted(map(float, row), reverse=True)[:2]

    assert token == list(row).index(row.max())
    assert margin == largest - second


class Poisoned(ToyBackend):
    """A stack whose logits turn NaN after some tokens."""

    def session(self, *, capacity_tokens: int) -> ToySession:
        """Open a session that poisons its third answer."""
        return PoisonedSession(backend=self)


class PoisonedSession(ToySession):
    """See `Poisoned`."""

    def next_logits(self, rows: Sequence[Sequence[int]]) -> Logits:
        """Answer, with a NaN once three tokens were seen."""
        answer = super().next_logits(rows)
        if len(self.rows[0]) >= 3:
            answer[:, 5] = np.nan
        return answer


def test_nan_fails_closed() -> None:
    """A NaN in the logits stops a trace and a comparison, naming the step."""
    with pytest.raises(NotFinite, match="step 2 has 1 that are NaN"):
        greedy(Poisoned(), [3], steps=6)
    healthy = baseline_of(ToyBackend(), ToyBackend(dtype="float64"), [3], "p")
    with pytest.raises(NotFinite, match="step 2"):
        compare(Poisoned(), [healthy])


# ---- small pure functions ----------------------------------------------------------------


@given(TOKENS, TOKENS)
def test_first_divergence_is_where_the_common_prefix_ends(
    left: list[int], right: list[int]
) -> None:
    """Everything before it is equal, it is not, and equal outputs have none."""
    at = first_divergence(left, right)

    if at is None:
        assert left == right
    else:
        assert left[:at] == right[:at]
        assert left[at : at + 1] != right[at : at + 1]


def test_a_shorter_output_is_a_divergence() -> None:
    """An output that stops early differs where it stops."""
    assert first_divergence([1, 2, 3], [1, 2]) == 2


def test_near_tie_share_counts_the_threshold_itself() -> None:
    """Half of four margins are at most 0.1; no margins are refused."""
    assert near_tie_share([0.0, 0.1, 0.2, 3.0], 0.1) == 0.5
    with pytest.raises(PromptError):
        near_tie_share([], 0.1)


@given(st.lists(st.floats(-20, 20, width=32), min_size=3, max_size=30), st.floats(-5, 5, width=32))
def test_a_common_shift_is_no_distance(values: list[float], shift: float) -> None:
    """Adding a constant to all logits changes neither distance nor KL divergence."""
    row = np.asarray(values, dtype=np.float64)

    assert distance_rms(row + shift, row) == pytest.approx(0, abs=1e-9)
    assert kl_divergence(row, row + shift) == pytest.approx(0, abs=1e-9)


# ---- comparison --------------------------------------------------------------------------


def test_a_flip_is_described_from_the_baseline() -> None:
    """Where a variant leaves, the step, margin, rank and both tokens are the baseline's facts."""
    toy = ToyBackend()
    base = baseline_of(toy, ToyBackend(dtype="float64"), [3, 4], "p")
    second = dataclasses.replace(toy, drift=0.7)
    run = compare(second, [base])[0]
    at = run.first_divergence

    assert at is not None
    assert run.baseline_token == base.trace.tokens[at]
    assert run.variant_token == run.picks[at] != run.baseline_token
    falling = np.argsort(-base.logits[at], kind="stable").tolist()
    assert run.rank == 1 + falling.index(run.variant_token)
    assert run.margin_at_divergence == pytest.approx(base.trace.margins[at], rel=1e-5)
    assert not run.arithmetic_decides


def test_the_best_tokens_of_both_are_kept_where_they_part() -> None:
    """The candidates hold both winners, each side's best first in its own logits."""
    toy = ToyBackend()
    base = baseline_of(toy, ToyBackend(dtype="float64"), [3, 4], "p")
    run = compare(dataclasses.replace(toy, drift=0.7), [base], go_on=False)[0]
    of_baseline = dict(zip(run.candidates, run.baseline_logits, strict=True))
    of_variant = dict(zip(run.candidates, run.variant_logits, strict=True))

    assert max(of_baseline, key=of_baseline.__getitem__) == run.baseline_token
    assert max(of_variant, key=of_variant.__getitem__) == run.variant_token
    assert list(run.baseline_logits) == sorted(run.baseline_logits, reverse=True)
    assert run.own_tokens == ()


def test_a_variant_goes_on_with_its_own_tokens() -> None:
    """It says what its own greedy run says from the first difference."""
    toy = ToyBackend()
    base = baseline_of(toy, ToyBackend(dtype="float64"), [3, 4], "p")
    second = dataclasses.replace(toy, drift=0.7)
    run = compare(second, [base])[0]
    at = run.first_divergence
    free = greedy(second, [3, 4], steps=len(base.trace.tokens)).tokens

    assert at is not None
    assert run.own_tokens == free[at : at + OWN_TOKENS]


def test_the_runner_up_of_an_exact_tie_has_rank_two() -> None:
    """Of two equal top logits the lower id is first, so the other one is second, not first."""
    from labkit.harness.compare import _rank

    row = np.asarray([0.0, 3.0, 1.0, 3.0], dtype=np.float32)

    assert (_rank(row, 1), _rank(row, 3), _rank(row, 2)) == (1, 2, 3)


def test_the_baseline_compared_with_itself_is_at_ratio_one() -> None:
    """The self-comparison is identical, unmoved, and exactly one unit from the reference."""
    base = baseline_of(tiny.backend(dtype="float16"), tiny.backend(), [5, 9, 11], "p")
    run = compare(tiny.backend(dtype="float16"), [base])[0]
    lane = Lane(precision="float16", runs={"p": run}, baselines={"p": base})

    assert run.identical
    assert run.logit_change == 0
    assert max(run.kl) == 0
    assert lane.ratio().value == pytest.approx(1, rel=1e-5)


def test_an_option_that_is_not_applied_is_found() -> None:
    """A session that does something else than expected stops the comparison by name."""
    base = baseline_of(ToyBackend(), ToyBackend(dtype="float64"), [3], "p")

    with pytest.raises(NotApplied, match="asked for cache='static'; the stack did cache='list'"):
        compare(ToyBackend(), [base], expect={"cache": "static"})


def test_a_run_survives_json() -> None:
    """What the journal stores of a run is read back as the same run."""
    base = baseline_of(ToyBackend(), ToyBackend(dtype="float64"), [3], "p")
    run = compare(ToyBackend(drift=0.7), [base])[0]

    assert Run.from_json(run.to_json()) == run


# ---- verdict -----------------------------------------------------------------------------


def lanes_of(variant: str, *, prompts: int = 3) -> list[Lane]:
    """Run a planted variant of the tiny Llama at two precisions."""
    lanes = []
    for precision, reference in (("float16", "float32"), ("float32", "float64")):
        plain, exact = tiny.backend(dtype=precision), tiny.backend(dtype=reference)
        names = [f"p{i}" for i in range(prompts)]
        bases = {
            name: baseline_of(plain, exact, tiny.prompt_ids(plain, seed=i), name)
            for i, name in enumerate(names)
        }
        changed = PLANTED[variant](tiny.backend(dtype=precision))
        runs = {name: compare(changed, [bases[name]])[0] for name in names}
        lanes.append(Lane(precision=precision, runs=runs, baselines=bases))
    return lanes


def _scale_attention(backend: Backend, *, factor: float) -> Backend:
    for layer in backend.model.model.layers:
        layer.self_attn.scaling *= factor
    return backend


def _scale_output(backend: Backend) -> Backend:
    backend.model.model.layers[0].self_attn.o_proj.weight.data *= 0.9
    return backend


def _shift_norm(backend: Backend) -> Backend:
    for layer in backend.model.model.layers:
        layer.input_layernorm.variance_epsilon = 1e-2
    return backend


def _swap_heads(backend: Backend) -> Backend:
    weight = backend.model.model.layers[1].self_attn.v_proj.weight
    weight.data = weight.data.roll(weight.shape[0] // 2, dims=0)
    return backend


def _chunked(backend: Backend) -> Backend:
    return dataclasses.replace(backend, prefill_chunk=5)


def _eager(backend: Backend) -> Backend:
    backend.model.set_attn_implementation("eager")
    return backend


PLANTED = {
    "attention scale wrong by 1 %": lambda b: _scale_attention(b, factor=1.01),
    "attention scale wrong by 0.1 %": lambda b: _scale_attention(b, factor=1.001),
    "norm epsilon": _shift_norm,
    "KV heads swapped": _swap_heads,
    "attention output of one layer scaled": lambda b: _scale_output(b),
    "chunked prefill": _chunked,
    "eager attention": _eager,
    "nothing at all": lambda b: b,
    "attention scale wrong by 0.003 %": lambda b: _scale_attention(b, factor=1.00003),
}
PRESERVING = {"chunked prefill", "eager attention", "nothing at all"}


@pytest.mark.parametrize("variant", sorted(PLANTED))
def test_planted_defects_are_told_from_reordered_arithmetic(variant: str) -> None:
    """Every planted defect is a different artefact; every reordering is preserving."""
    verdict = judge(lanes_of(variant)).verdict

    assert verdict == ("preserving" if variant in PRESERVING else "different artefact")


def test_a_defect_can_keep_every_token_and_still_be_found() -> None:
    """A wrong attention scale that flips no token is not taken for rounding."""
    lanes = lanes_of("attention scale wrong by 0.1 %")

    assert all(run.identical for run in lanes[1].runs.values())
    assert judge(lanes).verdict == "different artefact"


def test_one_precision_alone_is_undetermined() -> None:
    """Without a second precision there is no verdict, and the sentence says what settles it."""
    found = judge(lanes_of("chunked prefill")[:1])

    assert found.verdict == "undetermined"
    assert "a run at a second would settle it" in found.sentence


def test_one_prompt_alone_is_undetermined() -> None:
    """One prompt has no interval over prompts, so its growth decides nothing."""
    found = judge(lanes_of("norm epsilon", prompts=1))

    assert found.verdict == "undetermined"
    assert "it ran on one prompt only" in found.sentence
    assert (found.growth.low, found.growth.high) == (None, None)


def test_a_change_on_few_prompts_is_not_preserving() -> None:
    """What stays on one prompt in nine is named, though the median of all nine shrinks."""
    lanes = lanes_of("nothing at all", prompts=9)
    moved = dataclasses.replace(lanes[1].runs["p4"], distance=(1e-2,) * STEPS)
    rare = dataclasses.replace(lanes[1], runs={**lanes[1].runs, "p4": moved})
    found = judge([lanes[0], rare])

    assert judge(lanes).verdict == "preserving"
    assert found.growth.high < EQUAL_PARTS
    assert found.verdict == "undetermined"
    assert "its distance stays on 1 of its prompts (such as p4)" in found.sentence


def test_a_distance_of_zero_is_undetermined_by_name() -> None:
    """A variant that equals its reference has no slope, and the sentence says why."""
    lanes = lanes_of("nothing at all")
    exact = {
        name: dataclasses.replace(run, distance=(0.0,) * STEPS)
        for name, run in lanes[1].runs.items()
    }
    found = judge([lanes[0], dataclasses.replace(lanes[1], runs=exact)])

    assert found.verdict == "undetermined"
    assert "a distance of exactly zero has no ratio" in found.sentence


def test_a_sentence_states_its_numbers() -> None:
    """The sentence of a verdict holds ratio, precisions and growth."""
    found = judge(lanes_of("norm epsilon"))

    assert found.growth is not None
    assert f"growth {found.growth}" in found.sentence
    assert "in float16" in found.sentence and "in float32" in found.sentence


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.984, "0.98"), (-0.001, "0.00"), (12.34, "12.3"), (99.96, "100"), (41234.5, "41,200")],
)
def test_a_number_in_a_sentence_has_no_more_digits_than_it_earns(value: float, words: str) -> None:
    """Two decimals near one, three digits above ten, and never a power of ten."""
    assert in_words(value) == words


def _run(prompt: str, at: int | None, margin: float | None = None) -> Run:
    return Run(
        prompt=prompt,
        picks=(1,) * STEPS,
        distance=(0.1,) * STEPS,
        kl=(0.0,) * STEPS,
        logit_change=0.5,
        first_divergence=at,
        margin_at_divergence=margin,
        rank=None if at is None else 2,
        arithmetic_decides=None if at is None else True,
    )


def test_a_row_counts_what_its_runs_did() -> None:
    """Counts, mean place, largest margin and exact ties of a row are those of its runs."""
    row = summarise_knob([_run("a", None), _run("b", 2, 0.0), _run("c", 6, 0.25)], steps=STEPS)

    assert (row["runs"], row["identical"], row["diverged"]) == (3, 1, 2)
    assert row["mean_first_divergence_share"] == pytest.approx((2 / 8 + 6 / 8) / 2)
    assert (row["max_margin_at_divergence"], row["exact_ties"]) == (0.25, 1)


def test_a_row_states_both_tails_of_the_kl_divergence() -> None:
    """Over all steps of all runs: mean, first and last percentile, and the largest."""
    far = dataclasses.replace(_run("b", None), kl=(0.8,) + (0.0,) * (STEPS - 1))
    row = summarise_knob([dataclasses.replace(far, kl=(0.1,) * 199), far], steps=STEPS)

    assert row["kl_mean"] == pytest.approx((0.1 * 199 + 0.8) / 207, rel=1e-5)
    assert (row["kl_p01"], row["kl_p99"], row["kl_max"]) == (0.0, 0.1, 0.8)


def test_a_row_without_runs_claims_nothing() -> None:
    """Means and maxima over nothing are None, not zero."""
    row = summarise_knob([], steps=STEPS)

    assert row["runs"] == 0
    assert row["max_logit_change"] is None
    assert row["mean_first_divergence_share"] is None


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=12))
def test_an_interval_holds_its_estimate(values: list[float]) -> None:
    """The bootstrap interval over prompts contains the median and stays inside the sample."""
    from labkit.harness.verdict import over_prompts

    found = over_prompts(values)

    assert found is not None
    if len(values) == 1:
        assert (found.low, found.high) == (None, None)
        return
    assert found.low <= found.value <= found.high
    assert min(values) * (1 - 1e-5) <= found.low
    assert found.high <= max(values) * (1 + 1e-5)
    assert not math.isnan(found.value)
