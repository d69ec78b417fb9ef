"""Tests of the derived facts: each is learned by rendering, running, timing or reading."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from support import read_cases

from labkit.admission import RuntimeFacts
from labkit.facts import Finding, derive_facts, learn_facts
from labkit.facts import _device as device_facts
from labkit.facts._finding import find
from labkit.facts._runtime import run_attention
from labkit.facts._template import learn_template
from labkit.facts._twin import twin_of
from labkit.probes import attempt
from labkit.probes.stand_ins import tiny_gpt2, tiny_llama, tiny_tokenizer


def _by_name(findings: list[Finding]) -> dict[str, Any]:
    return {finding.name: finding.value for finding in findings}


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c["name"]) for c in read_cases("chat_templates.json")]
)
def test_template_facts_are_read_from_rendered_text(case: dict[str, Any]) -> None:
    """Each planted template shows what it does with roles, clock and BOS."""
    found = _by_name(learn_template(tiny_tokenizer(chat_template=case["template"])))

    assert {name: found[name] for name in case["expected"]} == case["expected"]


def test_tokenizer_that_adds_a_bos_is_seen() -> None:
    """A BOS that the tokenizer adds is counted from encoded ids, not read from a setting."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)]
    )

    assert _by_name(learn_template(tiny_tokenizer()))["tokenizer_bos_count"] == 0
    assert _by_name(learn_template(tokenizer))["tokenizer_bos_count"] == 1


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_side_is_seen_in_a_padded_batch(side: str) -> None:
    """The side is where the padding lies."""
    tokenizer = tiny_tokenizer()
    tokenizer.padding_side = side

    assert _by_name(learn_template(tokenizer))["default_padding_side"] == side


def test_facts_of_a_small_llama() -> None:
    """Everything learned is a fact that admission knows, marked as measured; the rest unknown."""
    template = next(c["template"] for c in read_cases("chat_templates.json"))
    learned = learn_facts(
        tiny_llama(), tokenizer=tiny_tokenizer(chat_template=template), compile_here=False
    )
    facts, names = learned.facts, {field.name for field in dataclasses.fields(RuntimeFacts)}

    assert {finding.name for finding in learned.findings} <= names
    assert {facts.learned(name) for name in facts.provenance} == {"measured"}
    assert all(learned.learned_utc in how for how in facts.provenance.values())
    assert set(facts.provenance) | set(facts.unknown()) == names - {"provenance"}
    assert RuntimeFacts.from_json(
        {"provenance": dict(facts.provenance), "system_role": facts.system_role}
    )
    assert (facts.device_kind, facts.system_role) == ("cpu", "accepted")
    assert facts.attention_implementations == ("eager", "sdpa")
    assert (facts.positions_from_mask, facts.right_padding_correct) == (True, False)
    assert (facts.head_size_kept, facts.default_cache_dtype) == (True, "auto")
    assert facts.compile_available is None
    assert all(row["how"].startswith("measured: ") for row in learned.to_json()["rows"])


def test_facts_without_a_tokenizer_leave_its_facts_unknown() -> None:
    """What was not tried is None, never a guess."""
    facts = derive_facts(compile_here=False)

    assert {"system_role", "tokenizer_bos_count", "template_clock"} <= set(facts.unknown())


def test_a_measurement_that_fails_is_unknown_and_says_why() -> None:
    """A broken measurement costs one fact, not all of them."""
    finding = find("pad_is_eos", lambda: 1 // 0, how="divided by zero")

    assert finding.value is None
    assert finding.how == (
        "not learned, ZeroDivisionError: integer division or modulo by zero (divided by zero)"
    )


def test_an_implementation_that_does_not_run_is_not_listed() -> None:
    """An attention implementation counts only where the model ran and still names it."""
    twin = twin_of(tiny_llama())

    assert not run_attention(twin, "eager", "cpu").raised
    assert run_attention(twin, "no_such_attention", "cpu").raised


@pytest.mark.parametrize(
    ("model", "of"),
    [
        pytest.param(tiny_llama, "a 2-layer twin of llama", id="llama"),
        pytest.param(tiny_gpt2, "a 1-layer twin of gpt2", id="gpt2"),
        pytest.param(lambda: None, "a tiny Llama", id="no-model"),
    ],
)
def test_twin_has_the_architecture_and_leaves_the_model_alone(model: Any, of: str) -> None:
    """A twin is small and of the same kind, and making one changes nothing in the original."""
    original = model()
    before = None if original is None else original.config.to_dict()
    twin = twin_of(original)

    assert twin.of == of
    assert attempt(twin.build).exception_type is None
    assert before is None or original.config.to_dict() == before


def test_window_is_proven_by_its_effect() -> None:
    """A windowed architecture hides a far token; one whose window is ignored would show it."""
    from transformers import MistralConfig, MistralForCausalLM

    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    config = MistralConfig(vocab_size=100, sliding_window=8, **shape, **heads)
    learned = learn_facts(model=MistralForCausalLM(config), compile_here=False)

    assert learned.facts.window_supported is True


def test_softcap_is_proven_by_its_effect() -> None:
    """Only the implementations whose logits move with the soft-cap are listed for it."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    config = Gemma2Config(vocab_size=100, sliding_window=8, **shape, **heads)
    facts = learn_facts(model=Gemma2ForCausalLM(config), compile_here=False).facts

    assert facts.softcap_implementations is not None
    assert "eager" in facts.softcap_implementations
    assert set(facts.softcap_implementations) <= set(facts.attention_implementations or ())


def test_a_compiler_that_hangs_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that compiles is given a time, and running out of it means no."""

    def hang(*arguments: Any, timeout: float, **options: Any) -> Any:
        raise subprocess.TimeoutExpired(cmd="compile", timeout=timeout)

    monkeypatch.setattr(device_facts.subprocess, "run", hang)

    assert device_facts.compiles("cpu") is False


def missing_to_compile() -> list[str]:
    """Name what this machine lacks of what compiling on a CPU takes."""
    header = Path(sysconfig.get_path("include")) / "Python.h"
    has = {
        "C++ compiler": bool(shutil.which("g++") or shutil.which("c++")),
        "Python.h": header.is_file(),
    }
    return [name for name, there in has.items() if not there]


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a compiler and without Python's headers, the reason for a skip names both."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))

    assert missing_to_compile() == ["C++ compiler", "Python.h"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "works"),
    [
        pytest.param("", True, id="as-it-is"),
        pytest.param("a-compiler-that-is-not-there", False, id="hidden"),
    ],
)
def test_compiling_is_tried(monkeypatch: pytest.MonkeyPatch, compiler: str, works: bool) -> None:
    """A small function compiles with a compiler and does not without one."""
    if compiler:
        monkeypatch.setenv("CXX", compiler)
    elif missing := missing_to_compile():
        pytest.skip(f"no {' and no '.join(missing)}: run `apt-get install g++ python3-dev`")

    assert device_facts.compiles("cpu") is works


def test_memory_respects_the_containers_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The smaller of free memory and what a container's limit leaves is the answer."""
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    monkeypatch.setattr(device_facts, "_CGROUP", tmp_path)

    assert device_facts.free_memory_bytes("cpu") == 3000


def test_memory_without_a_limit_is_the_machines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """A container without a limit says so in a word, which is not a number."""
    (tmp_path / "memory.max").write_text("max\n")
    monkeypatch.setattr(device_facts, "_CGROUP", tmp_path)

    assert device_facts.free_memory_bytes("cpu") > 3000
