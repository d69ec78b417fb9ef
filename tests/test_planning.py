"""Quantities, capacity and cost: units are kept apart, labels only weaken, bounds never exceed."""

from __future__ import annotations

import dataclasses
import random
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, read_cases

from labkit.errors import PlanningError
from labkit.experiments.fingerprints import read_specs
from labkit.planning import (
    FORMULAS,
    LABELS,
    Need,
    Quantity,
    cost_per_million,
    cost_per_success,
    cost_per_thousand_successes_by_rate,
    equal_length_bound,
    mixed_length_bound,
    need_of,
    pool_of_blocks,
    pool_of_bytes,
    pool_of_tokens,
    quantity,
    usable_bytes,
    weakest,
)
from labkit.planning.lengths import read_lengths
from labkit.planning.quantity import number
from labkit.planning.units import BASE_UNITS, SCALES, parse_unit
from labkit.spec import LayerCache, ModelSpec

SPECS = {spec.name: spec for spec in read_specs([ROOT / "data/configs"])}

labels = st.sampled_from(LABELS)
values = st.fractions(min_value=Fraction(1, 10**6), max_value=10**9)
units = st.lists(st.sampled_from(sorted(BASE_UNITS)), max_size=3)


@st.composite
def quantities(draw: st.DrawFn) -> Quantity:
    """Draw a quantity above zero of any unit and label."""
    above, below = draw(units), draw(units)
    unit = parse_unit("/".join(["*".join(above) or "1", *below]))
    return Quantity(value=draw(values), unit=unit, label=draw(labels), sources=("drawn",))


def tokens(value: str | int, *, label: str = "measured") -> Quantity:
    """Make a rate of output tokens."""
    return quantity(value, "output token/s", label=label, source="a run")


PRICE = quantity(4, "$/GPU/hour", label="estimated", source="an assumption")
GPU = quantity(1, "GPU", label="measured", source="the launch")


# ---- units and quantities ----------------------------------------------------------------


@given(quantities())
def test_a_unit_is_read_back_from_its_text(item: Quantity) -> None:
    """What a unit prints is what reads as the same unit."""
    assert parse_unit(str(item.unit)) == item.unit


@given(quantities(), quantities())
def test_no_operation_upgrades_a_label(one: Quantity, other: Quantity) -> None:
    """Products and quotients are at best derived, and no stronger than their weakest part."""
    bound = LABELS.index(weakest("derived", one.label, other.label))

    assert LABELS.index((one * other).label) == bound
    assert LABELS.index((one / other).label) == bound
    assert LABELS.index((one + one).label) >= LABELS.index(one.label)


@given(quantities(), quantities())
def test_units_multiply_and_cancel(one: Quantity, other: Quantity) -> None:
    """A product divided by its second part is the first again, exactly."""
    back = one * other / other

    assert (back.value, back.unit) == (one.value, one.unit)


@given(quantities(), quantities())
def test_two_units_are_never_added_or_compared(one: Quantity, other: Quantity) -> None:
    """Sum, difference, comparison and ratio of two units are refused, with both named."""
    if one.unit == other.unit:
        other = other * quantity(1, "J", label="measured", source="one joule")
    for operation in (Quantity.__add__, Quantity.__sub__, Quantity.exceeds, Quantity.ratio_to):
        with pytest.raises(PlanningError, match="Only quantities of one unit"):
            operation(one, other)


@given(quantities(), labels)
def test_a_label_can_be_weakened_and_not_strengthened(item: Quantity, label: str) -> None:
    """A weaker label is taken, a stronger one refused."""
    if LABELS.index(label) >= LABELS.index(item.label):
        assert item.weakened(label).label == label
    else:
        with pytest.raises(PlanningError, match="can only be weakened"):
            item.weakened(label)


@pytest.mark.parametrize("name", sorted(SCALES))
def test_a_scaled_unit_goes_there_and_back(name: str) -> None:
    """A unit that is a number times another one converts both ways without loss."""
    item = quantity(3, name, label="measured", source="a table")
    there = item.to(SCALES[name][1])

    assert there.value == 3 * SCALES[name][0]
    assert there.to(name) == item


def test_a_ratio_of_output_and_processed_tokens_is_refused() -> None:
    """The price of an output token and that of a processed one are not comparable."""
    rate = quantity("40,000", "processed token/s", label="measured", source="a run")
    processed = cost_per_million(price=PRICE, gpus=GPU, throughput=rate)
    with pytest.raises(PlanningError) as caught:
        cost_per_million(price=PRICE, gpus=GPU, throughput=tokens("17,686")).ratio_to(processed)

    assert str(caught.value) == (
        "Only quantities of one unit can be compared; got 0.0628243 $/M output token (estimated) "
        "and 0.0277778 $/M processed token (estimated). Bring both to the same denominator first."
    )


@pytest.mark.parametrize(
    "case", read_cases("quantities_refused.json"), ids=lambda case: case["why"]
)
def test_a_bad_quantity_is_refused_in_full(case: dict) -> None:
    """NaN, unknown words and empty sources are refused by name and number."""
    with pytest.raises(PlanningError) as caught:
        quantity(case["value"], case["unit"], label=case["label"], source=case["source"])

    assert str(caught.value) == case["error"]


@given(st.integers(-(10**12), 10**12), st.integers(0, 999))
def test_separated_thousands_are_read_as_printed(whole: int, thousandths: int) -> None:
    """A number in groups of three, with or without a fraction, reads as the same number."""
    assert number(f"{whole:,}.{thousandths:03}") == number(f"{whole}.{thousandths:03}")


# ---- cost --------------------------------------------------------------------------------


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_cost_falls_as_throughput_rises(slow: int, more: int) -> None:
    """A higher rate gives a lower cost, in exact proportion."""
    dear = cost_per_million(price=PRICE, gpus=GPU, throughput=tokens(slow))
    cheap = cost_per_million(price=PRICE, gpus=GPU, throughput=tokens(slow + more))

    assert dear.exceeds(cheap)
    assert dear.ratio_to(cheap).value == Fraction(slow + more, slow)


def test_a_cost_from_an_assumed_price_is_estimated() -> None:
    """One assumed price makes the cost an estimate, however well the rate was measured."""
    cost = cost_per_million(price=PRICE, gpus=GPU, throughput=tokens("17,686"))

    assert cost.label == "estimated"
    assert cost.sources == ("an assumption", "the launch", "a run")


def test_success_costs_what_failures_cost_too() -> None:
    """Half the successes double the cost of one."""
    spent = quantity("12.5", "$", label="measured", source="the bill")
    found = quantity(50, "success", label="measured", source="the count")

    assert float(cost_per_success(cost=spent, successes=found).value) == 0.25


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        pytest.param(
            {"throughput": tokens(0)},
            "`throughput` must be above zero; got throughput=0.",
            id="no throughput",
        ),
        pytest.param(
            {"price": quantity(-4, "$/GPU/hour", label="estimated", source="an assumption")},
            "`price` must be above zero; got price=-4.",
            id="negative price",
        ),
        pytest.param(
            {"throughput": quantity(3, "request/s", label="measured", source="a run")},
            "`throughput` must be in one of output token/s, processed token/s; got 3 request/s "
            "(measured). A rate of requests or of unnamed tokens gives no price of a token.",
            id="requests",
        ),
        pytest.param(
            {"gpus": quantity(1, "node", label="measured", source="the launch")},
            "`gpus` must be in 'GPU'; got 1 node (measured) from the launch. "
            "Convert it, or measure what the formula asks for.",
            id="nodes",
        ),
        pytest.param(
            {"gpus": quantity("0.5", "GPU", label="measured", source="the launch")},
            "`gpus` must be a whole number; got gpus=0.5 GPU.",
            id="half an accelerator",
        ),
    ],
)
def test_a_cost_of_wrong_inputs_is_refused(changes: dict, error: str) -> None:
    """Zero, negative and other units are refused by name and number."""
    with pytest.raises(PlanningError) as caught:
        cost_per_million(**{"price": PRICE, "gpus": GPU, "throughput": tokens(1), **changes})

    assert str(caught.value) == error


def test_a_success_rate_is_no_percentage() -> None:
    """91.99 in place of 0.9199 is refused."""
    with pytest.raises(PlanningError) as caught:
        cost_per_thousand_successes_by_rate(
            price=PRICE,
            gpus=GPU,
            throughput=tokens(1),
            tokens_per_attempt=quantity(1, "output token/attempt", label="measured", source="a"),
            success_rate=quantity("91.99", "success/attempt", label="measured", source="a table"),
        )

    assert str(caught.value) == (
        "`success_rate` must be at most 1, a success for every attempt; got success_rate=91.99. "
        "Divide a percentage by 100."
    )


def test_every_formula_says_what_it_returns() -> None:
    """Each registered formula has a docstring and takes keywords only."""
    for name, function in FORMULAS.items():
        assert function.__doc__, name
        assert not function.__defaults__, name


# ---- capacity ----------------------------------------------------------------------------

sizes = st.integers(1, 10**6)
lengths = st.integers(1, 10**5)
blocks = st.integers(1, 512)
headrooms = st.integers(0, 99).map(lambda percent: f"0.{percent:02}")


@given(sizes, lengths, blocks)
def test_block_rounding_never_admits_more(size: int, length: int, block: int) -> None:
    """The bound in whole blocks is at most the plain quotient, and equal for a block of one."""
    bound = equal_length_bound(
        pool := pool_of_tokens(size, block_tokens=block), need_of(pool, length)
    )
    by_one = pool_of_tokens(size, block_tokens=1)

    assert bound.at_most <= size // length
    assert equal_length_bound(by_one, need_of(by_one, length)).at_most == size // length


@given(sizes, lengths, lengths, blocks, headrooms)
def test_longer_sequences_and_more_headroom_never_fit_better(
    size: int, length: int, more: int, block: int, headroom: str
) -> None:
    """The bound does not rise with the length, nor with the share that is kept free."""
    free = pool_of_tokens(size, block_tokens=block)
    kept = pool_of_tokens(size, block_tokens=block, headroom=headroom)
    short = equal_length_bound(free, need_of(free, length)).at_most

    assert equal_length_bound(free, need_of(free, length + more)).at_most <= short
    assert equal_length_bound(kept, need_of(kept, length)).at_most <= short


@given(sizes, st.lists(lengths, min_size=1, max_size=20), headrooms, st.randoms())
def test_a_mix_lies_between_its_longest_and_its_mean(
    size: int, mix: list[int], headroom: str, chance: random.Random
) -> None:
    """The three counts of a mix are in order, and no order of the lengths changes them."""
    pool = pool_of_tokens(size, headroom=headroom)
    found = mixed_length_bound(pool, [need_of(pool, length) for length in mix])
    chance.shuffle(mix)

    assert found.all_longest <= found.at_confidence <= found.on_average
    assert found == mixed_length_bound(pool, [need_of(pool, length) for length in mix])
    assert found.together is (found.needed <= found.usable)


def test_equal_lengths_are_a_mix_too() -> None:
    """A mix of one length gives that length's bound, whatever the confidence."""
    pool = pool_of_tokens(245_088)
    mix = mixed_length_bound(pool, [need_of(pool, 2048)] * 5, confidence=0.999)

    assert {mix.all_longest, mix.at_confidence, mix.on_average} == {119}


def test_drawn_sequences_fit_as_often_as_declared() -> None:
    """Of drawn sets of the size that a confidence of 0.9 allows, at most a tenth overrun."""
    chance = random.Random(20)
    pool = pool_of_blocks(2000)
    needs = [need_of(pool, chance.choice((100, 800, 4000))) for _ in range(50)]
    mix = mixed_length_bound(pool, needs, confidence=0.9)
    overruns = sum(
        sum(need.least for need in chance.choices(needs, k=mix.at_confidence)) > pool.usable
        for _ in range(500)
    )

    assert mix.all_longest < mix.at_confidence
    assert overruns <= 50


def test_bytes_of_a_checkpoint_give_its_bound() -> None:
    """Llama-3.2-1B keeps 32,768 bytes a token, so a GiB holds 4 sequences of 8,192."""
    pool = pool_of_bytes(2**30)
    bound = equal_length_bound(pool, need_of(pool, 8192, spec=SPECS["llama-3.2-1b"]))

    assert (bound.surely, bound.at_most, bound.label) == (4, 4, "estimated")


@given(st.integers(1, 8192))
def test_a_window_of_unknown_layers_gives_two_bounds(length: int) -> None:
    """gemma-2-2b names a window and not its layers: beyond it the bounds part, before not."""
    pool = pool_of_bytes(2**33)
    bound = equal_length_bound(pool, need_of(pool, length, spec=SPECS["gemma-2-2b"]))

    assert bound.surely <= bound.at_most
    assert (bound.why == "") is (length <= 4096)
    if length <= 4096:
        assert bound.surely == bound.at_most


def hybrid() -> ModelSpec:
    """Make a checkpoint of one full and three recurrent layers."""
    full = LayerCache(kind="full", kv_heads=2, key_width=64, value_width=64)
    return ModelSpec(name="hybrid", cache_plan=(full, *[LayerCache(kind="recurrent")] * 3))


def test_an_uncounted_state_is_never_shown_as_room() -> None:
    """Without the bytes of its recurrent layers a hybrid surely fits no number of times."""
    pool = pool_of_bytes(10**6)
    bound = equal_length_bound(pool, need_of(pool, 16, spec=hybrid()))

    assert (bound.surely, bound.at_most) == (None, 10**6 // 8192)
    assert bound.why == (
        "3 layers keep a state of fixed size, which the config does not give in bytes"
    )
    assert [bound.holds(n) for n in (1, 122, 123)] == [None, None, False]


def test_nothing_known_bounds_nothing() -> None:
    """Where every layer keeps a state of unknown size, no count is sure and none too large."""
    pool = pool_of_bytes(10**6)
    recurrent = ModelSpec(name="recurrent", cache_plan=(LayerCache(kind="recurrent"),) * 2)
    need = need_of(pool, 16, spec=recurrent)
    bound, mix = equal_length_bound(pool, need), mixed_length_bound(pool, [need])

    assert (bound.surely, bound.at_most, bound.holds(1)) == (None, None, None)
    assert (mix.together, mix.all_shortest, mix.holds(10**9)) == (None, None, None)


def test_a_mix_does_not_hold_only_beyond_its_shortest() -> None:
    """Up to the confidence it holds, beyond the shortest it does not, between nobody knows."""
    pool = pool_of_blocks(100)
    mix = mixed_length_bound(pool, [Need(least=size, most=size) for size in (1, 10)])

    assert (mix.at_confidence, mix.all_shortest) == (10, 100)
    assert [mix.holds(n) for n in (10, 11, 100, 101)] == [True, None, None, False]


def test_a_declared_state_is_counted() -> None:
    """With its bytes given, the state is part of every sequence."""
    pool = pool_of_bytes(10**6)
    bound = equal_length_bound(pool, need_of(pool, 16, spec=hybrid(), state_bytes=1808))

    assert (bound.surely, bound.at_most) == (100, 100)


def test_a_mix_with_an_unknown_need_stays_open() -> None:
    """One sequence of unknown size leaves every count open, unless the known part overruns."""
    pool = pool_of_blocks(10)
    known, unknown = Need(least=3, most=3), Need(least=4, most=None, why="state")
    mix = mixed_length_bound(pool, [known, unknown])

    assert (mix.together, mix.needed, mix.at_confidence) == (None, None, None)
    assert mixed_length_bound(pool, [known, unknown, unknown]).together is False


@pytest.mark.parametrize(
    ("make", "error"),
    [
        pytest.param(
            lambda: pool_of_tokens(0),
            "`pool_tokens` must be a whole number from 1 to 1e+18; got pool_tokens=0.",
            id="no pool",
        ),
        pytest.param(
            lambda: pool_of_tokens(100, headroom="1"),
            "`headroom` must be a share of the pool, from 0 to below 1; got headroom='1'. "
            "A tenth is 0.1.",
            id="all is headroom",
        ),
        pytest.param(
            lambda: pool_of_tokens(100, headroom=float("nan")),
            "A number must be finite; got headroom=nan.",
            id="headroom is no number",
        ),
        pytest.param(
            lambda: need_of(pool_of_tokens(100), 10**5000),
            "`length` must be a whole number from 1 to 1e+18; got length=a number of 16610 bits.",
            id="a length beyond reason",
        ),
        pytest.param(
            lambda: need_of(pool_of_bytes(100), 1),
            "A pool of bytes needs a checkpoint to be divided; got 100 byte (estimated) and no "
            "spec. Name its config, or give the pool in tokens or blocks.",
            id="bytes without a spec",
        ),
        pytest.param(
            lambda: need_of(pool_of_bytes(100), 1025, spec=SPECS["gpt2"]),
            "A length must be within the positions of gpt2; got length=1025, max_position=1024. "
            "No pool makes room for a longer one.",
            id="beyond the positions",
        ),
        pytest.param(
            lambda: need_of(pool_of_bytes(100), 1, spec=hybrid(), state_bytes=0),
            "`state_bytes` must be a whole number from 1 to 1e+18; got state_bytes=0.",
            id="a state of no bytes",
        ),
        pytest.param(
            lambda: need_of(
                pool_of_bytes(100),
                1,
                spec=ModelSpec(name="x", cache_plan=(LayerCache(kind="none"),)),
            ),
            "A sequence must take a part of the pool; got 0 bytes for x. "
            "Measure what its layers keep, and give it as the bytes of its state.",
            id="a sequence of nothing",
        ),
        pytest.param(
            lambda: need_of(pool_of_bytes(100), 1, spec=ModelSpec(name="x", notes=("Why.",))),
            "The config must settle what each layer keeps; got none for x. Why.",
            id="no plan",
        ),
        pytest.param(
            lambda: mixed_length_bound(pool_of_tokens(100), []),
            "A mix must have at least one length; got none.",
            id="no length",
        ),
        pytest.param(
            lambda: mixed_length_bound(
                pool_of_tokens(100), [Need(least=1, most=1)], confidence=1.0
            ),
            "`confidence` must be above 0 and below 1; got confidence=1.0.",
            id="certainty",
        ),
        pytest.param(
            lambda: usable_bytes(
                reserved_bytes=10, weights_bytes=8, runtime_bytes=1, margin_bytes=1
            ),
            "Memory must be left for the cache; got reserved_bytes=10 and 10 bytes of weights, "
            "runtime and margin. Reserve more, or hold less.",
            id="nothing left",
        ),
    ],
)
def test_a_bad_pool_or_length_is_refused_in_full(make, error: str) -> None:
    """What cannot be divided is refused by name and number."""
    with pytest.raises(PlanningError) as caught:
        make()

    assert str(caught.value) == error


def test_what_is_left_is_the_pool() -> None:
    """Weights, runtime and margin come off the reserved memory."""
    left = usable_bytes(reserved_bytes=100, weights_bytes=60, runtime_bytes=10, margin_bytes=5)

    assert left == 25


def test_pools_are_frozen() -> None:
    """A pool cannot be changed after it was made."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        pool_of_tokens(16).headroom = Fraction(0)


# ---- a file of lengths -------------------------------------------------------------------


def test_both_shapes_of_a_length_are_read(tmp_path: Path) -> None:
    """Prompt and new tokens are added, a plain length is taken, empty lines are passed over."""
    file = tmp_path / "lengths.jsonl"
    file.write_text('{"max_new_tokens": 0, "prompt_tokens": 9}\n\n{"tokens": 4}\n')

    assert read_lengths(file) == [9, 4]


@pytest.mark.parametrize("case", read_cases("lengths_refused.json"), ids=lambda case: case["why"])
def test_a_bad_line_is_named(case: dict, tmp_path: Path) -> None:
    """A line that is no length is refused with its number."""
    file = tmp_path / "lengths.jsonl"
    file.write_text(case["text"])
    with pytest.raises(PlanningError) as caught:
        read_lengths(file)

    assert str(caught.value).replace(str(tmp_path), "…") == case["error"]
