"""Cache plans proven by allocation: the measuring itself, and the data that came of it."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

from labkit import allocation
from labkit.allocation import Live, compare
from labkit.cli import main
from labkit.experiments.allocation import load_proof, prove_all

MISTRAL = {
    "model_type": "mistral",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 96,
    "max_position_embeddings": 256,
}
WINDOWED = MISTRAL | {
    "model_type": "gemma2",
    "sliding_window": 16,
    "layer_types": ["sliding_attention", "full_attention"],
}
LAYER = 10 * 2 * 2 * 16 * 4  # tokens, keys and values, heads, width, bytes
LONG = 40 * 2 * 2 * 16 * 4
CUT = 16 * 2 * 2 * 16 * 4
TOKEN = 2 * 2 * 16 * 4


@pytest.mark.parametrize(
    ("live", "status", "why"),
    [
        pytest.param((LAYER, LAYER), "equal", "", id="equal"),
        pytest.param(
            (LAYER, LAYER * 2),
            "differs",
            f"layer 1 holds {LAYER * 2} bytes, the plan says {LAYER}",
            id="one-layer",
        ),
        pytest.param(
            (0, 0), "differs", f"layer 0 holds 0 bytes, the plan says {LAYER} and 1 more layers",
            id="all",
        ),
        pytest.param(
            (), "no cache", "the model's answer carries no cache that could be measured", id="none"
        ),
        pytest.param(
            (LAYER, LAYER, LAYER), "differs", "3 layers in the cache, 2 in the plan", id="more"
        ),
    ],
)  # fmt: skip
def test_a_cache_that_is_not_as_planned_is_named(
    live: tuple[int, ...], status: str, why: str
) -> None:
    """The first layer whose bytes differ is named with both numbers."""
    proof = compare("mistral", MISTRAL, live=Live(live, 0), long=Live((LONG, LONG), 0))

    assert (proof.status, proof.why) == (status, why)


@pytest.mark.parametrize(
    ("live", "status"),
    [
        pytest.param(CUT + LONG, "equal", id="whole-window"),
        pytest.param(CUT - TOKEN + LONG, "between steps", id="one-token-less"),
        pytest.param(2 * LONG, "kept whole", id="masked-only"),
        pytest.param(3 * LONG, "differs", id="too-much"),
    ],
)
def test_past_the_window_the_total_is_judged(live: int, status: str) -> None:
    """Beyond a window a cache may wait for its next token, keep all, or be wrong."""
    proof = compare("x", WINDOWED, live=Live((LAYER, LAYER), 0), long=Live((live,), 0))

    assert proof.long_status == status


def test_a_window_without_its_layers_is_an_upper_bound() -> None:
    """Where the file does not say which layers slide, the plan counts none of them."""
    config = MISTRAL | {"sliding_window": 16}
    proof = compare("x", config, live=Live((LAYER, LAYER), 0), long=Live((CUT, CUT), 0))

    assert (proof.status, proof.long_status) == ("equal", "upper bound")


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "deepseek_v3", "jamba", "gemma4_text"])
def test_a_twin_is_measured_here(name: str) -> None:
    """A tiny twin is built, run, and holds what its plan says, layer by layer."""
    proof = allocation.prove(name)

    assert (proof.status, proof.why) == ("equal", "")
    assert proof.live_bytes == proof.planned_bytes
    assert sum(proof.live_bytes) > 0


def test_a_twin_that_is_not_small_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin with too many parameters is refused before it takes memory."""
    monkeypatch.setattr(allocation, "MOST_PARAMETERS", 10)
    proof = allocation.prove("llama")

    assert proof.status == "not run"
    assert proof.why.startswith("ConfigError: A twin must have at most 10 parameters; got ")


def test_what_is_no_causal_model_is_refused() -> None:
    """An encoder-decoder is refused by the fingerprint and not run."""
    proof = allocation.prove("bart")

    assert (proof.status, proof.live_bytes) == ("refused", ())


def test_the_shell_proves_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two architectures are proven by name, and the file holds both."""
    file = tmp_path / "proof.json"
    status = main(["fingerprints", "--prove", "llama", "gpt2", "--out", str(file)])
    rows = json.loads(file.read_text())["rows"]

    assert status == 0
    assert [(row["model_type"], row["status"]) for row in rows] == [
        ("llama", "equal"),
        ("gpt2", "equal"),
    ]
    assert "architectures 2, equal 2, differs 0" in capsys.readouterr().out


def test_an_unknown_architecture_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that transformers does not build gets the nearest one; --out alone proves nothing."""
    assert main(["fingerprints", "--prove", "lama"]) == 2
    assert "got lama. Did you mean llama?" in capsys.readouterr().err
    assert main(["fingerprints", "--out", "x.json"]) == 2
    assert "--out keeps a proof; add --prove." in capsys.readouterr().err


# --- the data that the book shows --------------------------------------------------------------


def test_the_published_proof_has_no_difference() -> None:
    """No plan of the published table differs from its cache, and most architectures are proven."""
    proof = load_proof()
    summary = proof["summary"]

    assert summary["differs"] == 0
    assert summary["equal"] >= 130
    assert summary["architectures"] == len(proof["rows"]) == sum(summary.values()) // 2
    assert all(
        r["live_bytes"] == r["planned_bytes"] for r in proof["rows"] if r["status"] == "equal"
    )
    assert all(r["why"] for r in proof["rows"] if r["status"] != "equal")


def test_the_tables_count_what_the_data_say() -> None:
    """The counts add up, and the plan is exact wherever a row says so."""
    from labkit import charts

    proof = load_proof()
    counts = charts.allocation_counts(proof)
    table = charts.allocation_table(proof)
    fitting = [r for r in proof["rows"] if r["long_status"] in ("equal", "between steps")]

    parts = counts[["exact", "too much", "too little", "no answer"]].sum(axis=1)
    assert (parts == counts["caches"]).all()
    assert counts.loc["labkit's plan", "exact"] == sum(r["live_bytes_long"] > 0 for r in fitting)
    assert len(table) == sum(bool(r["live_bytes"]) for r in proof["rows"]) + sum(
        r["status"] == "no cache" and not r["live_bytes"] for r in proof["rows"]
    )


def test_the_published_proof_names_its_estimators() -> None:
    """Two public estimators, pinned and not required, stand beside every cache measured."""
    proof = load_proof()
    required = (ROOT / "requirements.lock").read_text(encoding="utf-8")

    assert sorted(proof["estimators"]) == ["ggufit", "hf-mem"]
    assert all("==" in e["requirement"] for e in proof["estimators"].values())
    assert not any(name + "==" in required for name in proof["estimators"])
    measured = [row for row in proof["rows"] if row["live_bytes"]]
    assert all(set(row["estimates"]) == set(proof["estimators"]) for row in measured)


def test_the_published_proof_is_of_the_locked_release() -> None:
    """The table was made with the transformers that the lock names, and has all it builds."""
    proof = load_proof()
    installed = importlib.metadata.version("transformers")
    assert f"transformers=={proof['versions']['transformers']} " in (
        ROOT / "requirements.lock"
    ).read_text(encoding="utf-8")

    if proof["versions"]["transformers"] == installed:
        assert [row["model_type"] for row in proof["rows"]] == allocation.architectures()


@pytest.mark.slow
def test_the_whole_table_can_be_made_again() -> None:
    """Every architecture comes out today as it was published."""
    published: dict[str, Any] = {r["model_type"]: r["status"] for r in load_proof()["rows"]}
    today = {row["model_type"]: row["status"] for row in prove_all()["rows"]}

    assert today == published
