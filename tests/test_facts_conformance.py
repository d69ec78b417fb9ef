"""Declared facts against the device: what contradicts is named, what cannot be tried says so."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from support import read_cases

from labkit.admission import RuntimeFacts
from labkit.cli import main
from labkit.errors import RequestError
from labkit.experiments import facts as facts_of_the_shell
from labkit.facts import Finding, LearnedFacts, check_facts, learn_facts
from labkit.facts import _capabilities as capabilities
from labkit.facts import _runtime as runtime
from labkit.facts._template import learn_template
from labkit.facts._twin import Twin, twin_of
from labkit.probes._subjects import cached_keys
from labkit.probes.stand_ins import tiny_llama, tiny_tokenizer

# Two values of each fact, of which one is declared and the other found.
PAIRS: dict[str, tuple[Any, Any]] = {
    "device_kind": ("cuda", "cpu"),
    "compute_capability": ((9, 0), (8, 0)),
    "device_memory_bytes": (80_000_000_000, 12_000_000_000),
    "attention_implementations": (("eager", "sdpa", "flash_attention_2"), ("eager", "sdpa")),
    "softcap_implementations": (("eager",), ("eager", "flex_attention")),
    "default_cache_dtype": ("float16", "auto"),
    "default_attention": ("flash_attention_2", "sdpa"),
    "quantization_backends": (("gptq",), ()),
    "default_padding_side": ("left", "right"),
    "speculation_drops": ((), ("min_p",)),
    "system_role": ("accepted", "folded"),
    "role_treatment": ({"tool": "accepted"}, {"tool": "dropped", "user": "accepted"}),
    "template_bos_count": (1, 0),
    "tokenizer_bos_count": (0, 1),
    "tokenizer_max_tokens": (1024, 10**30),
    "generation_defaults": ({"temperature": 0.6}, {"temperature": 0.7}),
    "generation_options": (("top_p",), ("top_p", "top_k")),
}
FACTS = [field.name for field in dataclasses.fields(RuntimeFacts) if field.name != "provenance"]


def learned_as(**values: Any) -> LearnedFacts:
    """Return facts as if they had been learned."""
    findings = tuple(Finding(name=n, value=v, how="tried it") for n, v in values.items())
    facts = RuntimeFacts(**values)
    return LearnedFacts(facts=facts, findings=findings, learned_utc="2026-01-01T00:00:00+00:00")


@pytest.fixture(scope="module")
def learned() -> LearnedFacts:
    """Return what is learned of an architecture with windows and a soft-cap, and a tokenizer."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    config = Gemma2Config(vocab_size=100, sliding_window=8, **shape, **heads)
    template = next(c["template"] for c in read_cases("chat_templates.json"))
    tokenizer = tiny_tokenizer(chat_template=template)
    return learn_facts(Gemma2ForCausalLM(config), tokenizer=tokenizer, compile_here=False)


@pytest.mark.parametrize("name", FACTS)
def test_a_fact_that_contradicts_is_named(name: str) -> None:
    """Whichever fact is declared otherwise than it is found, the check names it."""
    ours, found = PAIRS.get(name, (True, False))
    (checked,) = check_facts(RuntimeFacts(**{name: ours}), learned_as(**{name: found}))

    assert (checked.fact, checked.verdict) == (name, "contradicts")
    assert str(checked).startswith(f"{name} contradicts: ")
    assert str(checked).endswith("(typed); tried it")


@pytest.mark.parametrize("name", FACTS)
def test_a_fact_that_agrees_is_left_alone(name: str) -> None:
    """The same value on both sides is no contradiction."""
    _, found = PAIRS.get(name, (True, False))
    (checked,) = check_facts(RuntimeFacts(**{name: found}), learned_as(**{name: found}))

    assert checked.verdict == "agrees"


def test_every_fact_has_a_way_to_be_learned(learned: LearnedFacts) -> None:
    """On a CPU only two facts are not tried: what CUDA alone has, and compiling if left out."""
    assert set(learned.unlearned()) == {"compute_capability", "compile_available"}
    assert set(learned.unlearned().values()) == {
        "not tried: only a CUDA device has one",
        "not tried: compiling was left out",
    }


def test_a_difference_carries_its_numbers() -> None:
    """More memory than is free contradicts, in numbers; less does not, nor does a small excess."""
    found = learned_as(device_memory_bytes=1000)
    texts = [
        check_facts(RuntimeFacts(device_memory_bytes=declared), found)[0].difference
        for declared in (2000, 1050, 10, -1)
    ]

    assert texts == [
        "declared 2000 bytes, 1000 are free",
        "",
        "",
        "declared -1 bytes, 1000 are free",
    ]


def test_a_capability_that_the_device_cannot_have_contradicts() -> None:
    """A compute capability is CUDA's: declared of a CPU it is wrong, of an unknown device open."""
    declared = RuntimeFacts(compute_capability=(9, 0))
    ((on_cpu,), (anywhere,)) = (
        check_facts(declared, found) for found in (learned_as(device_kind="cpu"), learned_as())
    )

    assert (on_cpu.verdict, anywhere.verdict) == ("contradicts", "unchecked")
    assert on_cpu.difference == "declared (9, 0), a cpu device has none"


def test_a_template_that_is_not_there_is_why_nothing_is_checked() -> None:
    """Facts of a template, declared of a tokenizer without one, are open for that reason."""
    findings = tuple(learn_template(tiny_tokenizer()))
    known = {f.name: f.value for f in findings if f.value is not None}
    learned = dataclasses.replace(learned_as(**known), findings=findings)
    (checked,) = check_facts(RuntimeFacts(template_clock=False), learned)

    assert checked.verdict == "unchecked"
    assert checked.how == "not tried: the tokenizer carries no chat template"


def test_what_cannot_be_tried_is_unchecked() -> None:
    """A declared fact that nothing here can try is neither confirmed nor denied."""
    (checked,) = check_facts(RuntimeFacts(template_clock=False), learned_as())

    assert checked.verdict == "unchecked"
    assert checked.how == "not tried: it needs a model with its tokenizer"


def test_learned_facts_survive_their_file(learned: LearnedFacts) -> None:
    """Facts written and read again are the same, measured, and agree with themselves."""
    facts = RuntimeFacts.from_json(json.loads(json.dumps(learned.to_facts_json())))

    assert facts == learned.facts
    assert facts.learned("default_attention") == "measured"
    assert facts.learned("template_clock") == "measured"
    assert facts.learned("compile_available") is None
    assert {checked.verdict for checked in check_facts(facts, learned)} == {"agrees"}


def test_a_fact_without_provenance_was_typed() -> None:
    """A fact that does not say how it was learned was typed; a made-up word is refused."""
    facts = RuntimeFacts.from_json(
        {
            "fast_bfloat16": True,
            "template_clock": False,
            "provenance": {"template_clock": "measured"},
        }
    )

    assert facts.provenance == {"fast_bfloat16": "typed", "template_clock": "measured"}
    with pytest.raises(RequestError, match=r"provenance\.template_clock='measurement: by eye'"):
        RuntimeFacts.from_json({"provenance": {"template_clock": "measurement: by eye"}})


def shell_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[Any]]:
    """Write what this machine shows, declare two capabilities wrong, and check them."""
    right, wrong = folder / "right.json", folder / "wrong.json"
    assert main(["facts", "--device", "cpu", "--no-compile", "--out", str(right)]) == 0
    facts = json.loads(right.read_text())
    facts |= {"sinks_supported": True, "attention_implementations": ["eager", "no_such_kernel"]}
    wrong.write_text(json.dumps({n: v for n, v in facts.items() if not n.startswith("fast")}))
    capsys.readouterr()
    status = main(["facts", "--device", "cpu", "--no-compile", "--check", str(wrong), "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(False, id="learned-once"),
        pytest.param(True, id="learned-anew", marks=pytest.mark.slow),
    ],
)
def test_the_check_runs_from_the_shell(
    again: bool,
    learned: LearnedFacts,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file with a wrong capability ends with status 1 and its name; what was learned with 0."""
    if not again:
        monkeypatch.setattr(facts_of_the_shell, "learn", lambda **_: learned)
    status, rows = shell_check(tmp_path, capsys)

    wrong = {r["fact"]: r["difference"] for r in rows if r["verdict"] == "contradicts"}

    assert status == 1
    assert wrong.keys() == {"sinks_supported", "attention_implementations"}
    assert wrong["sinks_supported"] == "declared True, found False"
    assert wrong["attention_implementations"].startswith("no_such_kernel declared and not found")


def test_a_device_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A device that torch does not have is bad input, named in one message."""
    assert main(["facts", "--device", "cuda:99"]) == 2
    assert "got device='cuda:99'" in capsys.readouterr().err


# --- what a runtime can be asked to do -------------------------------------------------------


def mistral_twin() -> Twin:
    """Return a twin of an architecture that reads its window from the config."""
    from transformers import MistralConfig, MistralForCausalLM

    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    return twin_of(MistralForCausalLM(MistralConfig(vocab_size=100, **shape, **heads)))


def test_every_registered_attention_is_tried() -> None:
    """What the library registers is tried by name, but for the kernels of a paged cache."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    plain = {name for name in ALL_ATTENTION_FUNCTIONS if "|" not in name}
    known = runtime.known_attention()

    assert known[:2] == ["eager", "sdpa"]
    assert set(known) == {"eager", *plain}
    assert set(runtime.SLOW_IMPLEMENTATIONS) < plain


def test_a_head_size_that_is_not_read_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the stated size does not reach the cache, the fact is no."""
    twin, build = mistral_twin(), Twin.build
    assert runtime._keeps_head_size(twin, "cpu") is True

    monkeypatch.setattr(
        Twin, "build", lambda self, head_dim=None, **changes: build(self, **changes)
    )
    assert runtime._keeps_head_size(twin, "cpu") is False


def test_the_type_of_a_cache_is_read_from_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that follows the computing type is `auto`; one that does not has a name."""
    twin = mistral_twin()
    assert runtime._default_cache_dtype(twin, "cpu") == "auto"

    monkeypatch.setattr(runtime, "cached_keys", lambda cache: cached_keys(cache).half())
    assert runtime._default_cache_dtype(twin, "cpu") == "float16"


def test_an_imposed_window_is_proven_by_its_effect() -> None:
    """Mistral applies a window written into its config; Llama takes it and applies none."""
    assert capabilities.window_hides(mistral_twin(), "cpu") is True
    assert capabilities.window_hides(twin_of(None), "cpu") is False


def test_an_option_that_speculation_drops_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where drafted tokens are taken without an option's effect, the option is named."""
    real = capabilities._generate

    def forget(model: Any, options: Any, drafts: Any) -> list[int]:
        kept = {} if drafts and "repetition_penalty" in options else options
        return real(model, kept, drafts)

    monkeypatch.setattr(capabilities, "_generate", forget)

    assert capabilities.dropped_options(twin_of(None), "cpu") == ("repetition_penalty",)


def test_every_deciding_option_decides() -> None:
    """Each option's value changes what is generated, or ends the choice between runs."""
    model = twin_of(None).build()
    plain = capabilities._generate(model, {}, {})
    greedy = [n for n, options in capabilities._DECIDING.items() if "do_sample" in options]
    changed = [
        name
        for name, options in capabilities._DECIDING.items()
        if capabilities._generate(model, options, {}) != plain
    ]

    assert capabilities._generate(model, {"do_sample": True}, {}) != plain
    assert {"repetition_penalty", "no_repeat_ngram_size", "suppress_tokens"} <= set(changed)
    assert set(changed) & set(greedy) <= {"typical_p"}


def test_a_capacity_that_acts_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on the experts counts where it moves a logit."""
    twin = twin_of(tiny_llama())
    assert capabilities._capacity_acts(twin, "cpu") is False

    monkeypatch.setattr(capabilities, "CAPACITY_NAMES", ("num_key_value_heads",))
    assert capabilities._capacity_acts(twin, "cpu") is True
