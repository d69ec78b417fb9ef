"""Frozen outputs: a line that is not whole is refused by its number and its field."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_outputs import made, tokenised
from support import read_cases

from labkit.errors import OutputsError
from labkit.outputs import Output, read_outputs, write_outputs

REFUSED = read_cases("outputs_refused.json")
GOOD = {
    "id": "a",
    "prompt": "q",
    "reference": "5",
    "text": "it is 5",
    "output_tokens": 3,
    "stop_reason": "stop",
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["why"])
def test_a_line_that_is_not_whole_is_refused(case: dict[str, Any], tmp_path: Path) -> None:
    """The refusal names the file, the line and the field."""
    file = tmp_path / "outputs.jsonl"
    lines = [json.dumps(GOOD)]
    lines.append(case["line"] if "line" in case else json.dumps({**GOOD, **case["fields"]}))
    file.write_text("\n".join(lines), encoding="utf-8")

    with pytest.raises(OutputsError) as refused:
        read_outputs(file)

    assert str(refused.value) == case["error"].replace("FILE", str(file))


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    """Every field that has no default must stand on every line."""
    file = tmp_path / "outputs.jsonl"
    file.write_text(json.dumps({"id": "a", "text": ""}), encoding="utf-8")

    with pytest.raises(OutputsError) as refused:
        read_outputs(file)

    assert str(refused.value) == (
        "An output must have id, prompt, reference, text, output_tokens, stop_reason; missing at "
        f"{file} line 1: prompt, reference, output_tokens, stop_reason."
    )


@pytest.mark.parametrize("content", [b"", b"\n \n", None, b"\xff"], ids=str)
def test_a_file_without_outputs_is_refused(content: bytes | None, tmp_path: Path) -> None:
    """An empty, blank, missing or garbled file is no set of outputs."""
    file = tmp_path / "outputs.jsonl"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(
        OutputsError, match=r"A file of outputs must (hold at least one|be read|exist)"
    ):
        read_outputs(file)


_TEXT = st.text(max_size=20)
_PIECES = st.lists(_TEXT, min_size=1, max_size=5)


@settings(deadline=None)
@given(pieces=_PIECES, prompt=_TEXT, cluster=st.none() | _TEXT)
def test_outputs_are_read_back_as_written(
    pieces: list[str], prompt: str, cluster: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the texts hold, line separators included, a file gives back its outputs."""
    file = tmp_path_factory.mktemp("outputs") / "outputs.jsonl"
    whole = [p.encode("utf-8", "ignore").decode() for p in pieces]
    items = (
        tokenised(whole, prompt=prompt, cluster=cluster, token_ids=tuple(range(len(whole)))),
        made(id="x\u2028", text="\x85\u2028\n"),
    )

    digest = write_outputs(file, items)

    read = read_outputs(file.parent)
    assert (read.items, read.sha256) == (items, digest)


@given(st.integers(-3, 3), st.none() | st.integers(-3, 3))
def test_counts_must_agree(output_tokens: int, reasoning_tokens: int | None) -> None:
    """Counts that contradict each other make no output."""
    possible = 0 <= (reasoning_tokens or 0) <= output_tokens

    try:
        made(output_tokens=output_tokens, reasoning_tokens=reasoning_tokens)
    except OutputsError:
        assert not possible
    else:
        assert possible


def test_a_token_that_ends_inside_the_text_before_is_refused() -> None:
    """The ends of tokens rise; else a cut would show more text at a smaller cap."""
    with pytest.raises(OutputsError) as refused:
        made(text="it is 5", output_tokens=2, token_ends=(5, 2))

    assert str(refused.value) == ("token_ends must rise from 0 to the length of text; they do not.")


@given(_PIECES, st.integers(1, 6))
def test_a_cut_of_a_cut_is_the_smaller_cut(pieces: list[str], cap: int) -> None:
    """Cutting twice is cutting once at the smaller cap."""
    output: Output = tokenised(pieces)

    assert output.cut(cap + 1).cut(cap) == output.cut(cap)
    assert len(output.cut(cap).text) <= len(output.text)


def test_numbers_that_are_none_never_get_in(tmp_path: Path) -> None:
    """NaN is no JSON, and a reader of it would compare nothing with nothing."""
    file = tmp_path / "outputs.jsonl"
    file.write_text(json.dumps({**GOOD, "output_tokens": math.nan}), encoding="utf-8")

    with pytest.raises(OutputsError) as refused:
        read_outputs(file)

    assert str(refused.value) == (
        f"Each line must be a JSON object; got {file} line 1: NaN is not a JSON number."
    )
