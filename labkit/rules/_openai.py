"""Read a request in the OpenAI chat shape into the fields of ours."""

from __future__ import annotations

from collections.abc import Mapping

from labkit.errors import RequestError
from labkit.rules._reading import brief, ill_typed, misspelt

# Fields that say how an answer travels, not what is computed.
_TRANSPORT = frozenset({"stream", "stream_options", "user", "metadata", "store", "service_tier"})
_COPIED = {
    "model": "model",
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
# What must be of a kind, by the caller's own names, so that an error names what was written.
_KINDS = {
    "model": "str",
    "temperature": "float",
    "top_p": "float",
    "top_k": "int",
    "min_p": "float",
    "repetition_penalty": "float",
    "max_tokens": "int",
    "max_completion_tokens": "int",
    "n": "int",
}
_OF_MESSAGES = frozenset({"role", "content", "name"})
# Parts of a message that are more than text; they become options as well.
_MORE_THAN_TEXT = frozenset(
    {"tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content"}
)
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
    given = {name: value for name, value in body.items() if value is not None}
    _refuse_faults(given, all_names=body)
    roles, other_parts = _read_messages(body.get("messages"))
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


def _refuse_faults(given: Mapping[str, object], *, all_names: Mapping[str, object]) -> None:
    faults = [misspelt(str(name), sorted(KNOWN)) for name in all_names if name not in KNOWN]
    if faults := [*faults, *ill_typed(given, _KINDS)]:
        raise RequestError(
            f"A chat request must have known, well-typed fields only; got {', '.join(faults)}. "
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
    faults: list[str] = []
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if not isinstance(role, str) or not isinstance(message, Mapping):
            raise RequestError(
                f"Each message must have a role; got messages[{index}]={brief(message)}. "
                'Write {"role": "user", "content": "..."}.'
            )
        roles.append(role)
        others += _other_parts(message)
        faults += [f"messages[{index}].{fault}" for fault in _message_faults(message)]
    if faults:
        raise RequestError(
            f"Messages must have known, well-typed fields only; got {', '.join(faults)}. "
            f"Known fields: {', '.join(sorted(_OF_MESSAGES | _MORE_THAN_TEXT))}."
        )
    return roles, others


def _message_faults(message: Mapping[str, object]) -> list[str]:
    known = _OF_MESSAGES | _MORE_THAN_TEXT
    faults = [misspelt(str(name), sorted(known)) for name in message if name not in known]
    content = message.get("content")
    if content is not None and not isinstance(content, str | list):
        faults.append(f"content={brief(content)} (must be a text, a list of parts or null)")
    return faults


def _other_parts(message: Mapping[str, object]) -> list[str]:
    """Return what a message holds beside text: kinds of its parts, and further fields."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    kinds = [part.get("type") if isinstance(part, Mapping) else None for part in parts]
    more = [name for name in sorted(_MORE_THAN_TEXT) if message.get(name)]
    # the answer to a call carries the call's id, which asks for nothing
    return [str(kind) for kind in kinds if kind != "text"] + [
        n for n in more if n != "tool_call_id"
    ]
