"""Would the runtime build heads of the size that the config states?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Rule, reject, unknown
from labkit.rules._request import Request
from labkit.rules.context import LLAMA3
from labkit.spec import ModelSpec

_RULE = "heads.size"
_WIDER = LLAMA3 | {"head_dim": 128}
_PLAIN = Request(prompt_tokens=100, max_new_tokens=8)


def _size(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    width, heads, stated = spec.hidden_size, spec.num_attention_heads, spec.head_dim
    if facts.head_size_kept or width is None or not heads or stated is None:
        return None
    divided = width // heads
    if stated == divided or spec.attention_kind == "MLA":  # MLA has sizes of its own names
        return None
    if facts.head_size_kept is None:
        question = f"whether heads of {stated} are built, where {width} over {heads} is {divided}"
        return (unknown(_RULE, "head_size_kept", question, head_dim=stated, divided=divided),)
    message = (
        f"{spec.name} states heads of {stated}, and this runtime would build them of {divided}, "
        f"which is {width} over {heads}"
    )
    hint = "use a release that reads head_dim"
    return (reject(_RULE, message, hint=hint, head_dim=stated, divided=divided),)


SIZE = Rule(
    id=_RULE,
    reason="A head size taken for the hidden size over the heads misjudges weights and cache.",
    check=_size,
    admits=Example(config=_WIDER, request=_PLAIN, facts=RuntimeFacts(head_size_kept=True)),
    refuses=Example(config=_WIDER, request=_PLAIN, facts=RuntimeFacts(head_size_kept=False)),
    unknown=Example(config=_WIDER, request=_PLAIN),
)
