"""Fingerprints against tiny random models: the plan is what a real cache holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support import read_cases

from labkit.config_reading.keys import IGNORED
from labkit.spec import fingerprint

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CASES = read_cases("cache_allocation.json")
TOKENS = 10

# Ignored keys that cannot be perturbed one by one on a decoder, each with its reason.
NOT_PERTURBED = {
    "architectures": "a list of classes, which from_config does not look at",
    "is_encoder_decoder": "true is refused",
    "is_decoder": "Llama has no encoder form",
    "add_cross_attention": "builds other layers, and false in every decoder",
    "chunk_size_feed_forward": "encoders only",
    "return_dict": "false changes the type of the answer, not its numbers",
    "torchscript": "changes the type of the answer, not its numbers",
    "output_attentions": "needs an attention that returns weights",
    "problem_type": "one of three words, for classifiers",
}


def tiny_model(config: Any) -> Any:
    """Return a random model with a fixed seed, ready to run."""
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("case", [pytest.param(case, id=case["model_type"]) for case in CASES])
def test_the_plan_counts_what_the_cache_allocates(case: dict) -> None:
    """Keys and values of a real forward pass have as many elements as the plan says."""
    config = transformers.AutoConfig.for_model(case["model_type"], **case["config"])
    with torch.no_grad():
        answer = tiny_model(config)(torch.arange(3, 3 + TOKENS)[None], use_cache=True)
    layers = answer.past_key_values.layers if "past_key_values" in answer else []
    tensors = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
    allocated = sum(tensor.numel() for tensor in tensors if torch.is_tensor(tensor))

    spec = fingerprint(json.loads(config.to_json_string(use_diff=False)))
    assert spec.cache_bytes(tokens=TOKENS, bytes_per_element=1) == allocated
    assert spec.attention_kind == case["attention_kind"]


def perturbed(value: object) -> object:
    """Return another value of the same type, None where there is no obvious one."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value / 2 + 0.125
        case _:
            return None


def ignored_changes(config: Any) -> Iterator[tuple[str, object]]:
    """Yield the ignored keys that a config carries, with another value."""
    for key, value in config.to_dict().items():
        new = perturbed(value)
        if key in IGNORED and key not in NOT_PERTURBED and new is not None:
            yield key, new


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "mixtral"])
def test_ignored_keys_leave_the_logits_unchanged(model_type: str) -> None:
    """What the fingerprint ignores does not enter the function that the model computes."""
    case = next(case for case in CASES if case["model_type"] == model_type)
    config = transformers.AutoConfig.for_model(model_type, **case["config"])
    reference = tiny_model(config)
    ids = torch.arange(3, 3 + TOKENS)[None]
    changes = list(ignored_changes(config))
    assert changes
    with torch.no_grad():
        expected = reference(ids).logits
        for key, value in changes:
            changed = transformers.AutoConfig.for_model(
                model_type, **{**case["config"], key: value}
            )
            model = tiny_model(changed)
            model.load_state_dict(reference.state_dict())

            assert torch.equal(model(ids).logits, expected), key
