"""A request, and what is known of the runtime, from files."""

from __future__ import annotations

from pathlib import Path

from labkit.errors import RequestError
from labkit.files import shown
from labkit.rules._facts import RuntimeFacts
from labkit.rules._json import parse_json
from labkit.rules._request import Request
from labkit.rules._shapes import Shape, read_request


def read_request_file(
    path: Path, *, shape: Shape | None = None, prompt_tokens: int | None = None
) -> Request:
    """Read a file's request, in labkit's shape or in the OpenAI chat shape.

    Args:
        path: The file.
        shape: The shape that the request must have; None: see by its fields.
        prompt_tokens: Length of the rendered prompt of a chat request.

    Raises:
        RequestError: If it cannot be read, or a field is unknown or of another kind.
    """
    text = read_text(path)
    return read_request(text, shape=shape, prompt_tokens=prompt_tokens, what=shown(path))


def read_facts(path: Path) -> RuntimeFacts:
    """Read a file of facts.

    Raises:
        RequestError: If it is no JSON, or a fact is unknown or of another kind.
    """
    return RuntimeFacts.from_json(parse_json(read_text(path), what=shown(path)))


def read_text(path: Path) -> str:
    """Return a file's text; the error names the file.

    Raises:
        RequestError: If it cannot be read as UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{shown(path)} must be readable UTF-8 text; got: {error}.") from error
