"""The options beyond the thirteen: each moves what its kind says, and leaves nothing behind."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from verdict_bench.subjects import tiny_model

from labkit.backends.transformers import TransformersBackend
from labkit.errors import KnobError, NotApplicable, NotApplied
from labkit.harness import follow
from labkit.knobs import Option, Prompt, parse_option, preservation_table
from labkit.knobs.caches import Rounding
from labkit.knobs.layers import kept_within

MORE = preservation_table("more")
# What an option may move the float32 logits of a tiny model by, if it only reorders sums.
REORDERED = 1e-3
OWN_ARITHMETIC = {"bfloat16"}
# Compiling takes long, so those rows have a file of their own.
RUN_HERE = [option for option in MORE if option.knob.name != "compiled"]


def _subject(option: Option) -> TransformersBackend:
    if "expert" in option.knob.name:
        return tiny.backend(model=tiny_model("Mixtral", experts_implementation="eager"))
    return tiny.backend()


def _along(backend: TransformersBackend, ids: list[int], **more: object) -> np.ndarray:
    return np.concatenate(list(follow(backend, [ids], [[4, 5, 6, 7, 8, 9]], **more)))


@pytest.mark.parametrize("option", RUN_HERE, ids=lambda option: option.slug)
def test_an_option_moves_what_its_kind_says_and_restores_the_rest(option: Option) -> None:
    """Over prompt and output, runtime options move logits by rounding at most, others by more."""
    backend = _subject(option)
    ids = tiny.prompt_ids(backend, tokens=90)
    plain = _along(backend, ids)
    with option.applied(backend) as variant:
        expect = option.expected([Prompt(name="p", ids=tuple(ids))])
        moved = float(np.abs(_along(variant, ids, expect=expect) - plain).max())

    assert np.array_equal(plain, _along(backend, ids))
    if option.knob.name not in OWN_ARITHMETIC:
        assert (moved < REORDERED) == (option.kind != "model")


@pytest.mark.parametrize("option", MORE, ids=lambda option: option.slug)
def test_an_option_documents_itself_and_reads_back(option: Option) -> None:
    """Each has a docstring, a label that its parameters fill, and a spelling that is read back."""
    assert option.knob.apply.__doc__
    assert "{" not in option.label
    assert parse_option(option.spelled) == option


def test_the_sweep_goes_from_sixteen_bits_down_to_two() -> None:
    """The table of widths holds each once, in falling order."""
    assert [option.params["bits"] for option in preservation_table("bits")] == [*range(16, 1, -1)]


def test_the_tables_are_known_by_name() -> None:
    """No option stands in two tables, and an unknown table is refused with the known ones."""
    assert not {o.slug for o in MORE} & {o.slug for o in preservation_table()}
    with pytest.raises(KnobError, match="called 'mroe'; known: bits, llamacpp, main, more, stacks"):
        preservation_table("mroe")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prefix_cache:share=1.0", "share=1.0"),
        ("verification:tokens=0", "tokens=0"),
        ("verification:rejected=-1", "rejected=-1"),
        ("in_company:others=0", "others=0"),
        ("prompt_lookup:tokens=0", "tokens=0"),
        ("prompt_lookup:ngram=0", "ngram=0"),
        ("assisted:tokens=0", "tokens=0"),
        ("compiled:by=gcc", "got 'gcc'"),
        ("left_padding:pads=0", "pads=0"),
        ("truncation:keep=0", "keep=0"),
        ("quantised_cache:bits=1", "bits=1"),
        ("cache_dtype:dtype=int8", "got 'int8'"),
        ("partial_sums:parts=1", "parts=1"),
        ("dynamic_linears:bits=17", "bits=17"),
        ("expert_capacity:factor=0", "factor=0"),
        ("experts_per_token:count=0", "count=0"),
        ("experts_kernel:kernel=fast", "got 'fast'"),
        ("stretched_rope:kind=long", "got 'long'"),
        ("rounded_weights:dtype=float64", "got 'float64'"),
    ],
)
def test_a_value_out_of_range_is_refused(text: str, says: str) -> None:
    """A parameter that makes no sense is refused by value as it is read."""
    with pytest.raises(KnobError, match=says):
        parse_option(text)


@pytest.mark.parametrize(
    "text", ["expert_capacity", "experts_per_token", "experts_kernel:kernel=eager"]
)
def test_expert_options_do_not_apply_without_experts(text: str) -> None:
    """A model without experts is named instead of being left as it is."""
    with (
        pytest.raises(NotApplicable, match="LlamaForCausalLM has no experts"),
        parse_option(text).applied(tiny.backend()),
    ):
        pass


def test_rounding_weights_that_are_exact_is_not_applied() -> None:
    """Weights that bfloat16 holds exactly leave nothing to round, and the option says so."""
    rounded = tiny.backend(model=tiny.loaded(dtype="bfloat16").model.float())
    with (
        pytest.raises(NotApplied, match="every stored weight is exact in bfloat16"),
        parse_option("rounded_weights").applied(rounded),
    ):
        pass


def test_rounded_weights_are_counted() -> None:
    """The manifest says how many stored weights the rounding altered."""
    backend = tiny.backend()
    total = sum(p.numel() for p in backend.model.parameters())
    with parse_option("rounded_weights").applied(backend) as variant:
        altered = variant.manifest()["changes"]["weights_altered"]

    assert total / 2 < altered <= total


# ---- the prefix cache, warm and cold -----------------------------------------------------


def test_warm_runs_equal_each_other_and_cold_ones_too() -> None:
    """Cold with cold and warm with warm are equal bit for bit; warm says what it reused."""
    backend = tiny.backend(dtype="bfloat16")
    ids = tiny.prompt_ids(backend, tokens=60)
    with parse_option("prefix_cache:share=0.5").applied(backend) as warm:
        session = warm.session(capacity_tokens=70)
        first = session.next_logits([ids])

        assert np.array_equal(first, warm.session(capacity_tokens=70).next_logits([ids]))
    assert session.observed["prefix_tokens"] == 30
    assert np.array_equal(_along(backend, ids), _along(backend, ids))


def test_a_rejected_draft_leaves_no_trace_behind_a_window() -> None:
    """Taking drafts back works where sliding layers have forgotten what left their window."""
    model = tiny_model("Gemma2", sliding_window=16, attn_implementation="eager")
    backend = tiny.backend(model=model)
    ids = tiny.prompt_ids(backend, tokens=40)
    plain = _along(backend, ids)
    for text in ("verification:tokens=3,rejected=2", "prefix_cache:share=0.4"):
        with parse_option(text).applied(backend) as variant:
            assert float(np.abs(_along(variant, ids) - plain).max()) < REORDERED


def test_padding_without_positions_matters_to_learned_ones_only() -> None:
    """Without corrected positions GPT-2 computes another function, and Llama the same."""
    moved = {}
    for name, backend in (("llama", tiny.backend()), ("gpt2", tiny.gpt2_backend())):
        ids = tiny.prompt_ids(backend, tokens=30)
        with parse_option("left_padding:pads=6,positions=false").applied(backend) as variant:
            moved[name] = float(np.abs(variant.next_logits(ids) - backend.next_logits(ids)).max())

    assert moved["llama"] < REORDERED < moved["gpt2"]


def test_truncation_is_the_end_of_the_prompt() -> None:
    """The truncated prompt is answered as its own end is."""
    backend = tiny.backend()
    ids = tiny.prompt_ids(backend, tokens=40)
    with parse_option("truncation:keep=0.25").applied(backend) as variant:
        assert np.array_equal(variant.next_logits(ids), backend.next_logits(ids[-10:]))


def test_a_session_starts_as_in_a_fresh_process() -> None:
    """Dynamic RoPE keeps the longest length it has seen; a longer request leaves no trace."""
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    model = tiny_model("Llama", rope_parameters=rope, max_position_embeddings=32)
    backend = tiny.backend(model=model)
    ids = tiny.prompt_ids(backend, tokens=40)
    first = backend.next_logits(ids)
    backend.next_logits(tiny.prompt_ids(backend, tokens=90))

    assert np.array_equal(backend.next_logits(ids), first)


# ---- rounding and capacity, as rules ------------------------------------------------------


@given(st.integers(2, 16), st.integers(0, 2**16))
def test_a_stored_vector_lies_on_its_grid(bits: int, seed: int) -> None:
    """A rounded vector moves by at most half a step, and rounding it again changes nothing."""
    vectors = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(seed))
    rounded = Rounding(bits=bits)(vectors)
    step = vectors.abs().amax(dim=-1, keepdim=True) / (2 ** (bits - 1) - 1)

    assert bool(((rounded - vectors).abs() <= step * 0.51).all())
    assert torch.allclose(Rounding(bits=bits)(rounded), rounded, atol=1e-6)


def test_fewer_bits_move_a_cache_further() -> None:
    """From 16 bits down to 2 the largest logit change grows."""
    backend = tiny.backend()
    ids = tiny.prompt_ids(backend, tokens=60)
    plain = _along(backend, ids)
    moved = []
    for bits in (16, 12, 8, 5, 3):
        with parse_option(f"quantised_cache:bits={bits}").applied(backend) as variant:
            moved.append(float(np.abs(_along(variant, ids) - plain).max()))

    assert all(left < right for left, right in itertools.pairwise(moved))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 12))
def test_no_expert_takes_more_than_its_capacity(chosen: list[int], capacity: int) -> None:
    """Each expert keeps its first `capacity` tokens and drops the ones after."""
    index = torch.tensor(chosen)
    kept = kept_within(index, experts=4, capacity=capacity)
    for expert in range(4):
        mine = kept[index == expert].tolist()

        assert mine == [place < capacity for place in range(len(mine))]


@pytest.mark.parametrize(("tokens", "chunk"), [(6, 1), (13, 4), (12, 5)])
def test_a_chunk_of_one_is_seen(tokens: int, chunk: int) -> None:
    """Pieces of one token count as applied, the last one too; a generated token is none."""
    option = parse_option(f"chunked_prefill:chunk={chunk}")
    backend = tiny.backend()
    ids = tiny.prompt_ids(backend, tokens=tokens)
    expect = option.expected([Prompt(name="p", ids=tuple(ids))])
    with option.applied(backend) as variant:
        session = variant.session(capacity_tokens=tokens + 2)
        session.next_logits([ids])
        session.next_logits([[4]])

    assert session.observed["prefill_pieces"] == expect["prefill_pieces"]
