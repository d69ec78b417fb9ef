"""Do padded rows continue from their own last token, at its own position?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Rule, reject, unknown
from labkit.rules._request import Request
from labkit.rules.context import GPT2
from labkit.spec import ModelSpec

_BATCH = Request(prompt_tokens=300, shortest_prompt_tokens=200, max_new_tokens=8, batch_size=4)
_LEFT = Request(
    prompt_tokens=300,
    shortest_prompt_tokens=200,
    max_new_tokens=8,
    batch_size=4,
    padding_side="left",
)
_RIGHT = Request(
    prompt_tokens=300,
    shortest_prompt_tokens=200,
    max_new_tokens=8,
    batch_size=4,
    padding_side="right",
)


def _side(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if request.batch_size <= 1 or not request.padded or facts.right_padding_correct:
        return None
    side = request.padding_side or facts.default_padding_side
    if side is None:
        question = "on which side the tokenizer fills up shorter rows"
        return (unknown("padding.side", "default_padding_side", question),)
    if side == "left":
        return None
    message = "right-padded rows would continue from padding, not from their last token"
    return (reject("padding.side", message, hint="pad on the left", batch=request.batch_size),)


SIDE = Rule(
    id="padding.side",
    reason="With right padding the shorter rows come out wrong, with a warning at most.",
    check=_side,
    admits=Example(config=GPT2, request=_LEFT),
    refuses=Example(config=GPT2, request=_RIGHT),
    unknown=Example(config=GPT2, request=_BATCH),
)


def _positions(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if request.batch_size <= 1 or facts.positions_from_mask or request.position_ids:
        return None
    if not request.padded or spec.position_kind not in (None, "learned", "sinusoidal"):
        return None  # rotary and ALiBi positions depend on distances only
    if (request.padding_side or facts.default_padding_side) != "left":
        return None
    if facts.positions_from_mask is None:
        question = "whether positions of padded rows are counted from the mask"
        return (unknown("padding.positions", "positions_from_mask", question),)
    kind = spec.position_kind or "unstated"
    message = f"padding would shift the {kind} positions of {spec.name}"
    return (reject("padding.positions", message, hint="pass position ids that skip the padding"),)


POSITIONS = Rule(
    id="padding.positions",
    reason="Absolute positions count the padding unless somebody subtracts it.",
    check=_positions,
    admits=Example(config=GPT2, request=_LEFT, facts=RuntimeFacts(positions_from_mask=True)),
    refuses=Example(config=GPT2, request=_LEFT, facts=RuntimeFacts(positions_from_mask=False)),
    unknown=Example(config=GPT2, request=_LEFT),
)
