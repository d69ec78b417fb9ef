"""Read a request in whichever of the known shapes it comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Literal

from labkit.errors import RequestError
from labkit.rules._json import parse_json
from labkit.rules._openai import KNOWN
from labkit.rules._request import Request

Shape = Literal["labkit", "openai"]
SHAPES: tuple[Shape, ...] = ("labkit", "openai")

_OURS = frozenset(field.name for field in fields(Request))


def shape_of(data: object) -> Shape:
    """Return which shape a request has.

    A list of messages is OpenAI's. Without one it is the shape that knows more of the fields, so
    that a misspelt `messages` is refused by that name; ours where both know as many.
    """
    if not isinstance(data, Mapping):
        return "labkit"
    if "messages" in data:
        return "openai"
    strange = {"openai": len(data.keys() - KNOWN), "labkit": len(data.keys() - _OURS)}
    return "openai" if strange["openai"] < strange["labkit"] else "labkit"


def read_request(
    text: str | bytes,
    *,
    shape: Shape | None = None,
    prompt_tokens: int | None = None,
    what: str = "A request",
) -> Request:
    """Read a request from JSON text, in our shape or in the OpenAI chat shape.

    Args:
        text: The JSON, such as the body of an HTTP request.
        shape: The shape it must have; None: see by its fields.
        prompt_tokens: Length of the rendered prompt, which a chat request does not state.
        what: What is being read, for the error's text.

    Raises:
        RequestError: If it is no JSON, or a field is unknown or of another kind; all are named.
    """
    data = parse_json(text, what=what)
    if (shape or shape_of(data)) == "openai":
        return Request.from_openai(data, prompt_tokens=prompt_tokens)
    if prompt_tokens is not None:
        raise RequestError(
            "Only a chat request must be told its length; got "
            f"prompt_tokens={prompt_tokens} beside a request in labkit's shape. "
            "Write it into the request."
        )
    return Request.from_json(data)
