"""Knobs: what each changes, that it restores what it borrowed, and how options are read."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from labkit.backends import Backend
from labkit.errors import KnobError, NotApplicable, NotApplied
from labkit.harness import follow
from labkit.knobs import (
    KNOBS,
    Option,
    Prompt,
    fake_quantise_linears,
    knob,
    parse_option,
    preservation_table,
)
from labkit.knobs.registry import KINDS

TABLE = preservation_table()
BY_SLUG = {option.slug: option for option in TABLE}
# What an option may move the float32 logits of the tiny model by, if it only reorders sums.
REORDERED = 1e-3


def test_the_table_has_the_thirteen_rows_in_their_order() -> None:
    """Seven runtime rows, five of the model, one control, each under a name of its own."""
    kinds = [option.kind for option in TABLE]

    assert kinds == ["runtime"] * 7 + ["model"] * 5 + ["control"]
    assert kinds == sorted(kinds, key=KINDS.index)
    assert len(BY_SLUG) == len(TABLE)


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.slug)
def test_an_option_reads_back_as_it_is_spelled(option: Option) -> None:
    """The spelling of each row, read again, is the same row."""
    assert parse_option(option.spelled) == option


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.slug)
def test_every_knob_documents_itself(option: Option) -> None:
    """Each knob has a docstring, and a label that its parameters fill."""
    assert option.knob.apply.__doc__
    assert "{" not in option.label


def _moved(option: Option) -> float:
    backend = tiny.backend()
    ids = tiny.prompt_ids(backend, tokens=90)
    plain = backend.next_logits(ids)
    with option.applied(backend) as variant:
        group = [Prompt(name="p", ids=tuple(ids))]
        expected = {} if option.knob.group else option.expected(group)
        changed, _ = [row[0] for row in follow(variant, [ids], [[4, 5]], expect=expected)]
    again = backend.next_logits(ids)

    assert np.array_equal(plain, again), "the option left something changed behind"
    return float(np.abs(changed - plain).max())


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.slug)
def test_an_option_moves_what_its_kind_says_and_restores_the_rest(option: Option) -> None:
    """Runtime and control rows move logits by rounding at most, model rows by more."""
    moved = _moved(option)

    assert (moved < REORDERED) == (option.kind != "model")


def test_a_window_hides_exactly_the_tokens_behind_it() -> None:
    """Under a window of 8 and no depth, a token 8 places back cannot change the answer."""
    from labkit.probes.stand_ins import tiny_llama

    backend = tiny.backend(model=tiny_llama(num_hidden_layers=1))
    ids = tiny.prompt_ids(backend, tokens=20)
    other = [*ids[:11], ids[11] + 1 if ids[11] < 90 else 3, *ids[12:]]
    nearer = [*ids[:12], ids[12] + 1 if ids[12] < 90 else 3, *ids[13:]]
    with parse_option("window:size=8").applied(backend) as variant:
        base, outside, inside = (variant.next_logits(row) for row in (ids, other, nearer))

    assert np.array_equal(base, outside)
    assert not np.array_equal(base, inside)


def test_sinks_stay_visible_behind_a_window() -> None:
    """With one sink the first token still changes the answer, without it does not."""
    from labkit.probes.stand_ins import tiny_llama

    backend = tiny.backend(model=tiny_llama(num_hidden_layers=1))
    ids = tiny.prompt_ids(backend, tokens=20)
    other = [ids[0] + 1 if ids[0] < 90 else 3, *ids[1:]]
    for sinks, seen in ((0, False), (1, True)):
        with parse_option(f"window:size=8,sinks={sinks}").applied(backend) as variant:
            changed = not np.array_equal(variant.next_logits(ids), variant.next_logits(other))

        assert changed is seen


@given(st.integers(2, 16), st.integers(0, 2**16))
def test_rounded_weights_lie_on_the_grid_within_half_a_step(bits: int, seed: int) -> None:
    """No weight moves by more than half a scale, and a row has at most 2**bits - 1 values."""
    linear = torch.nn.Linear(12, 3, bias=False)
    linear.weight.data = torch.randn(3, 12, generator=torch.Generator().manual_seed(seed))
    holder = types.SimpleNamespace(modules=lambda: [linear], get_output_embeddings=lambda: None)
    before = linear.weight.data.clone()
    changed = fake_quantise_linears(holder, bits=bits)
    after = linear.weight.data
    scale = before.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)

    own_rounding = 4 * torch.finfo(before.dtype).eps * before.abs().amax()

    assert bool(((after - before).abs() <= scale / 2 + own_rounding).all())
    assert changed == int((after != before).sum())
    assert len(after[0].unique()) <= 2**bits - 1


def test_rounding_leaves_head_and_embeddings_alone() -> None:
    """Only the decoder's linears are rounded, GPT-2's transposed ones too."""
    backend = tiny.gpt2_backend()
    head = backend.model.get_output_embeddings().weight.clone()
    inner = backend.model.transformer.h[0].attn.c_attn.weight.clone()
    fake_quantise_linears(backend.model, bits=4)

    assert torch.equal(backend.model.get_output_embeddings().weight, head)
    assert not torch.equal(backend.model.transformer.h[0].attn.c_attn.weight, inner)
    assert len(backend.model.transformer.h[0].attn.c_attn.weight[:, 0].unique()) <= 15


@pytest.mark.parametrize("bits", [1, 17])
def test_rounding_refuses_other_widths(bits: int) -> None:
    """A width outside 2 to 16 bits is refused by value."""
    with pytest.raises(KnobError, match=f"bits={bits}"):
        fake_quantise_linears(tiny.backend().model, bits=bits)


def test_rope_scaling_is_removed_where_there_is_one() -> None:
    """A model with linear scaling loses it: its live frequencies become the plain ones."""
    from labkit.probes.stand_ins import tiny_llama

    plain = tiny_llama().model.rotary_emb.inv_freq
    scaled = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    backend = tiny.backend(model=tiny_llama(rope_parameters=scaled))
    assert not torch.equal(backend.model.model.rotary_emb.inv_freq, plain)
    with parse_option("rope_scaling").applied(backend) as variant:
        assert torch.equal(variant.model.model.rotary_emb.inv_freq, plain)

    assert not torch.equal(backend.model.model.rotary_emb.inv_freq, plain)


def test_rope_scaling_does_not_apply_to_learned_positions() -> None:
    """GPT-2 has no rotary module, and the option says so instead of changing nothing."""
    with (
        pytest.raises(NotApplicable, match="rope_scaling does not apply to GPT2LMHeadModel"),
        parse_option("rope_scaling").applied(tiny.gpt2_backend()),
    ):
        pass


def test_a_rescaling_by_one_is_reported_as_not_applied() -> None:
    """A factor of 1 leaves the live frequencies as they are, so it is not an option's effect."""
    with (
        pytest.raises(NotApplied, match="the live frequencies did not change"),
        parse_option("rope_scaling:factor=1.0").applied(tiny.backend()),
    ):
        pass


def test_a_padded_batch_shortens_all_but_the_first_of_a_group() -> None:
    """Rows of a group differ in length and keep their ends; none is left alone."""
    prompts = [Prompt(name=f"p{i}", ids=tuple(range(i, i + 90))) for i in range(5)]
    groups = BY_SLUG["padded_batch_4"].groups(prompts)

    assert [len(group) for group in groups] == [5]
    assert groups[0][0] == prompts[0]
    assert len({len(row.ids) for row in groups[0]}) == 5
    assert all(row.ids[-1] == p.ids[-1] for row, p in zip(groups[0], prompts, strict=False))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("chunked_prefil", "Did you mean 'chunked_prefill'"),
        ("chunked_prefill_64", "spelled 'chunked_prefill:chunk=64'"),
        ("chunked_prefill:size=3", "no parameter 'size'; its parameters: chunk"),
        ("chunked_prefill:chunk=many", "chunk must be of type int; got 'many'"),
        ("eager_attention:x=1", "its parameters: none"),
        ("no_such_module:my_knob", "could not import the knob no_such_module:my_knob"),
        ("math:sqrt", r"math:sqrt must be made with @labkit\.knobs\.knob"),
        ("", "unknown knob ''"),
        ("..:x", "could not import the knob ..:x"),
        ("chunked_prefill:64", "Try 'chunked_prefill:chunk=64'"),
    ],
)
def test_a_broken_option_is_refused_by_name(text: str, says: str) -> None:
    """Each way to misspell an option has a message that names it and helps."""
    with pytest.raises(KnobError, match=says):
        parse_option(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("chunked_prefill:chunk=0", "chunk=0"),
        ("window:size=0", "size=0"),
        ("window:sinks=-1", "sinks=-1"),
        ("sdpa_kernel:kernel=fast", "got 'fast'"),
        ("padded_batch:rows=1", "rows=1"),
        ("rope_scaling:factor=nan", "factor=nan"),
        ("quantised_weights:bits=1", "bits=1"),
    ],
)
def test_a_value_out_of_range_is_refused(text: str, says: str) -> None:
    """A parameter that makes no sense is refused when the option is read."""
    with pytest.raises(KnobError, match=says):
        parse_option(text)


def test_a_window_needs_a_model_whose_own_hides_nothing() -> None:
    """Within a model's own window the option applies; past it, it would replace that window."""
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=16,
    )
    backend = tiny.backend(model=MistralForCausalLM(config).eval())
    with parse_option("window:size=8").applied(backend) as variant:
        short = np.abs(variant.next_logits(range(3, 18)) - backend.next_logits(range(3, 18)))
        with pytest.raises(NotApplicable, match=r"own window of 16, .* from 17 tokens"):
            variant.next_logits(range(3, 20))

    assert short.max() > 0.001


def test_a_kernel_that_the_device_lacks_does_not_apply() -> None:
    """A kernel that cannot run here is reported so, not raised as torch's own error."""
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    option = parse_option("sdpa_kernel:kernel=cudnn")

    with pytest.raises(NotApplicable, match="'cudnn' does not run"), option.applied(tiny.backend()):
        pass


def test_options_that_differ_in_sign_differ_in_name() -> None:
    """A minus sign and a decimal point survive in the name that keys are made of."""
    option = parse_option("rope_scaling:factor=0.5")
    minus = dataclasses.replace(option, params={"factor": -0.5})

    assert option.slug != minus.slug


def test_a_users_knob_needs_no_change_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A knob in a module of the user's own is found by `module:function`, with parameters."""
    module = types.ModuleType("my_options")
    monkeypatch.setitem(sys.modules, "my_options", module)
    monkeypatch.setitem(KNOBS, "louder", None)
    del KNOBS["louder"]

    @knob(kind="model", label="louder by {times}")
    def louder(backend: Backend, *, times: int = 2) -> Iterator[Backend]:
        """Yield the backend as it is."""
        yield backend

    module.louder = louder
    option = parse_option("my_options:louder:times=3")

    assert (option.label, option.slug, option.kind) == ("louder by 3", "louder_3", "model")


def test_two_knobs_of_one_name_are_refused() -> None:
    """A second knob of a registered name is refused instead of replacing the first."""
    with pytest.raises(KnobError, match="'eager_attention' is registered already"):

        @knob(kind="runtime", label="again")
        def eager_attention(backend: Backend) -> Iterator[Backend]:
            """Yield the backend as it is."""
            yield backend
