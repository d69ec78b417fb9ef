"""Is the device that is asked for the one that is there?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Rule, reject, unknown
from labkit.rules._request import Request
from labkit.rules.context import GPT2
from labkit.spec import ModelSpec


def _device(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if request.device is None:
        return None
    asked, there = request.device.partition(":")[0], facts.device_kind
    if there is None:
        return (unknown("device", "device_kind", f"whether there is a {asked} device"),)
    if asked == there:
        return None
    message = f"{asked} is asked for, and what is there is {there}"
    return (reject("device", message, hint=f"ask for {there}, or for none"),)


_ON_CUDA = Request(prompt_tokens=100, max_new_tokens=8, device="cuda")

DEVICE = Rule(
    id="device",
    reason="A runtime without the device runs on another, and some do so in silence.",
    check=_device,
    admits=Example(config=GPT2, request=_ON_CUDA, facts=RuntimeFacts(device_kind="cuda")),
    refuses=Example(config=GPT2, request=_ON_CUDA, facts=RuntimeFacts(device_kind="cpu")),
    unknown=Example(config=GPT2, request=_ON_CUDA),
)
