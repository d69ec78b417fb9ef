"""Read a request in the OpenAI chat shape into the fields of ours."""

from __future__ import annotations

from collections.abc import Mapping

from labkit.errors import RequestError
from labkit.rules._reading import brief, nearest

# Fields that say how an answer travels, not what is computed.
_TRANSPORT = frozenset(
    {"model", "stream", "stream_options", "user", "metadata", "store", "service_tier"}
)
_COPIED = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
}
# Fields that ask for something unless they hold the value beside them; they become options,
# which the rule `sampling.unknown` looks up in what the runtime knows.
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "seed": (),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "reasoning_effort": (),
}
_RENAMED = {"n": "num_return_sequences", "stop": "stop_strings"}
KNOWN = frozenset({"messages", "temperature", *_TRANSPORT, *_COPIED, *_NEUTRAL, *_RENAMED})


def fields_from_openai(body: object, *, prompt_tokens: int | None) -> dict[str, object]:
    """Return our fields for an OpenAI chat request.

    A temperature of 0 means greedy there; none at all leaves sampling to the checkpoint.

    Args:
        body: The parsed JSON.
        prompt_tokens: Length of the rendered prompt, which the body does not state.

    Raises:
        RequestError: If a field is unknown or the messages are not a list of messages.
    """
    if not isinstance(body, Mapping):
        raise RequestError(
            f"A chat request must be a JSON object; got {type(body).__name__}. "
            "Write its fields between braces."
        )
    _refuse_unknown(body)
    roles, other_parts = _read_messages(body.get("messages"))
    given = {name: value for name, value in body.items() if value is not None}
    _refuse_two_limits(given)
    fields: dict[str, object] = {ours: given[n] for n, ours in _COPIED.items() if n in given}
    options = {n: given[n] for n, nothing in _NEUTRAL.items() if n in given}
    options = {n: value for n, value in options.items() if value not in _NEUTRAL[n]}
    options |= {ours: given[n] for n, ours in _RENAMED.items() if given.get(n, 1) not in (1, [])}
    fields |= _sampling(given)
    return fields | {
        "prompt_tokens": prompt_tokens,
        "roles": roles,
        "chat_template": True,
        "options": options | {f"messages.{part}": True for part in other_parts},
    }


def _sampling(given: Mapping[str, object]) -> dict[str, object]:
    if "temperature" not in given:
        return {"do_sample": None}
    temperature = given["temperature"]
    greedy = temperature == 0 and not isinstance(temperature, bool)
    return {"do_sample": False} if greedy else {"do_sample": True, "temperature": temperature}


def _refuse_two_limits(given: Mapping[str, object]) -> None:
    old, new = given.get("max_tokens"), given.get("max_completion_tokens")
    if old is not None and new is not None and old != new:
        raise RequestError(
            "A chat request must have one limit; got "
            f"max_tokens={brief(old)}, max_completion_tokens={brief(new)}. Drop max_tokens."
        )


def _refuse_unknown(body: Mapping[str, object]) -> None:
    faults = []
    for name in body:
        if name not in KNOWN:
            near = nearest(str(name), sorted(KNOWN))
            faults.append(
                f"{name} (unknown; did you mean {near}?)" if near else f"{name} (unknown)"
            )
    if faults:
        raise RequestError(
            f"A chat request must have known fields only; got {', '.join(faults)}. "
            f"Known fields: {', '.join(sorted(KNOWN))}."
        )


def _read_messages(messages: object) -> tuple[list[str], list[str]]:
    """Return the roles in order, and the kinds of content that are not text."""
    if not isinstance(messages, list) or not messages:
        raise RequestError(
            f"messages must be a list of at least one message; got messages={brief(messages)}. "
            'Write [{"role": "user", "content": "..."}].'
        )
    roles: list[str] = []
    others: list[str] = []
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if not isinstance(role, str):
            raise RequestError(
                f"Each message must have a role; got messages[{index}]={brief(message)}. "
                'Write {"role": "user", "content": "..."}.'
            )
        roles.append(role)
        others += _other_parts(message.get("content"))
    return roles, others


def _other_parts(content: object) -> list[str]:
    parts = content if isinstance(content, list) else []
    kinds = [part.get("type") if isinstance(part, Mapping) else None for part in parts]
    return [str(kind) for kind in kinds if kind != "text"]
