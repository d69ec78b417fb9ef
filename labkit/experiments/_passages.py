"""The frozen passages that every option is run on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from labkit.errors import PromptError
from labkit.files import data_file, digest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A passage of the book's prose, under the name it keeps."""

    name: str
    text: str


def load_passages(count: int) -> list[Passage]:
    """Return the first `count` frozen passages.

    Raises:
        PromptError: If there are fewer, or one differs from its stored SHA-256.
    """
    try:
        stored = json.loads(data_file("passages", "passages.json").read_text(encoding="utf-8"))
        entries = [
            {key: str(e[key]) for key in ("name", "text", "sha256")} for e in stored["passages"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise PromptError(
            "data/passages/passages.json must hold the frozen passages; got "
            f"{type(problem).__name__}: {problem}. Restore it with `git checkout`."
        ) from problem
    if count > len(entries):
        raise PromptError(
            f"a run can use at most the {len(entries)} frozen passages; got prompts={count}. "
            "Lower `prompts` in the profile."
        )
    for entry in entries[:count]:
        found = hashlib.sha256(entry["text"].encode()).hexdigest()
        if found != entry["sha256"]:
            raise PromptError(
                f"passage {entry['name']} must have SHA-256 {entry['sha256']}; got {found}. "
                "The passages are frozen: restore data/passages/passages.json."
            )
    return [Passage(name=entry["name"], text=entry["text"]) for entry in entries[:count]]


def passages_digest(passages: list[Passage]) -> str:
    """Return one SHA-256 over the passages in use."""
    return digest_of([[passage.name, passage.text] for passage in passages])
