"""The llama.cpp stack on a tiny random model: the same function, the same ids, its own options."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
from support import Python

from labkit import models
from labkit.backends import llamacpp
from labkit.backends.llamacpp_stack import open_beside, require_equal_ids
from labkit.backends.transformers import TransformersBackend
from labkit.errors import KnobError, ModelError, NotApplicable, PromptError
from labkit.experiments import preservation
from labkit.knobs import parse_option, preservation_table
from labkit.profiles import Lane, Profile, load_profile

TEXT = "the cache keeps what was read in the other text"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tiny GGUF file and what the lab converts it to."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: make llamacpp")
    return tiny.save_gguf(tmp_path_factory.mktemp("gguf") / "tiny")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def profile(checkpoint: Path) -> Profile:
    """Return a profile of the smallest size, on the tiny model."""
    return dataclasses.replace(
        load_profile("quick"),
        model=str(checkpoint),
        prompts=3,
        prompt_tokens=90,
        steps=4,
        float32_lane=Lane(prompts=3, steps=4),
    )


def test_plain_files_compute_the_function_that_was_converted(checkpoint: Path) -> None:
    """In float32 both stacks agree to rounding; 8-bit activations do not."""
    loaded = models.load(str(checkpoint), dtype="float32")
    plain = TransformersBackend(loaded=loaded)
    ids = plain.encode(TEXT)
    moved = {
        weights: float(
            np.abs(
                open_beside(loaded, weights=weights).next_logits(ids) - plain.next_logits(ids)
            ).max()
        )
        for weights in ("float32", "float16", "published")
    }

    assert moved["float32"] < 1e-4 < moved["float16"] < 0.05 < moved["published"]


def test_the_same_weights_are_preserved_and_the_published_file_is_not(profile: Profile) -> None:
    """Plain files shrink with the arithmetic; flash attention's 16 bits and the file's 8 stay."""
    rows = preservation.run(profile, table="stacks")["rows"]
    ratios = [row["ratio"] for row in rows]

    assert [row["verdict"] for row in rows] == ["preserving"] + ["different artefact"] * 3
    assert max(ratios[:2]) < 3 < min(ratios[2:])


def test_its_own_options_are_judged_on_its_own_arithmetic(profile: Profile, tmp_path: Path) -> None:
    """Smaller passes shrink; flash attention, in 16-bit keys, and quantised caches stay."""
    rows = preservation.run(profile, tmp_path, stack="llamacpp")["rows"]

    assert {row["knob"]: row["verdict"] for row in rows} == {
        "flash_attention": "different artefact",
        "llama_batch_64": "preserving",
        "llama_batch_1": "preserving",
        "llama_cache_q8_0": "different artefact",
        "llama_cache_q4_0": "different artefact",
    }


def test_an_option_of_another_stack_does_not_apply(profile: Profile) -> None:
    """An option says which backend it takes, and refuses another by name."""
    with (
        pytest.raises(NotApplicable, match=r"an option of LlamaCppBackend; .* a Transformers"),
        parse_option("flash_attention").applied(tiny.backend()),
    ):
        pass
    rows = preservation.run(profile, stack="llamacpp", knobs=["static_cache"])["rows"]

    assert [row["verdict"] for row in rows] == ["not applicable"]


def test_ids_that_differ_are_refused_with_their_place() -> None:
    """The first token at which two stacks part is named."""
    with pytest.raises(PromptError) as refusal:
        require_equal_ids([5, 6, 7], [5, 8], text="a text")

    assert str(refusal.value) == (
        "token ids of both stacks must be equal before anything is compared; got "
        "llama.cpp=[6, 7], transformers=[8] from token 1 of 'a text'."
    )


def test_a_model_without_a_file_is_refused(tmp_path: Path) -> None:
    """A folder without a GGUF file has nothing that llama.cpp could read."""
    loaded = models.load(str(tiny.save(tmp_path)))

    with pytest.raises(ModelError, match=r"one \*\.gguf beside its safetensors; got .* has 0"):
        open_beside(loaded, weights="published")


def test_a_missing_library_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without llama-cpp-python the message says how to have it."""
    monkeypatch.setitem(sys.modules, "llama_cpp", None)

    with pytest.raises(ModelError, match=r"extra `llamacpp`; it is not installed\. Run `make"):
        llamacpp._library.__wrapped__()


def test_weights_outlive_their_contexts(checkpoint: Path, python: Python) -> None:
    """A process that ends with an open session, or drops it in a cycle, ends in order."""
    code = (
        "import gc, sys; from labkit import models; "
        "from labkit.backends.llamacpp_stack import open_beside, open_file; "
        "loaded = models.load(sys.argv[1], dtype='float32'); "
        "backend = open_beside(loaded, weights='float32'); "
        "kept, ring = (backend.session(capacity_tokens=4) for _ in range(2)); "
        "kept.next_logits([[5, 6]]); ring.next_logits([[5, 6]]); "
        "ring.observed['self'] = ring; open_file.cache_clear(); del backend, ring; gc.collect(); "
        "print(kept.next_logits([[7]]).shape)"
    )
    done = python(code, str(checkpoint))

    assert (done.returncode, done.stdout) == (0, "(1, 262)\n"), done.stderr


@pytest.mark.parametrize(
    "text", ["another_stack:file=other", "llama_batch:tokens=0", "llama_cache:type=q9"]
)
def test_a_parameter_that_makes_no_sense_is_refused(text: str) -> None:
    """Each option of the stack checks its parameter when it is read."""
    with pytest.raises(KnobError, match="must be"):
        parse_option(text)


@pytest.mark.parametrize("table", ["stacks", "llamacpp"])
def test_each_row_reads_back(table: str) -> None:
    """Each row's spelling is read back as that row."""
    assert all(parse_option(option.spelled) == option for option in preservation_table(table))
