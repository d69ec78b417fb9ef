"""Files of the lab: what strict JSON is, and how a file that is none is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import OutputsError
from labkit.files import MAX_DEPTH, load_json_strict, parse_json_strict

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # A surrogate alone is no character, and no file can hold it.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=20,
)


@given(_VALUES, st.booleans())
def test_what_json_can_say_is_read_as_it_was(value: object, ascii_only: bool) -> None:
    """Every value that JSON can say comes back, with its characters escaped or not."""
    assert parse_json_strict(json.dumps(value, ensure_ascii=ascii_only)) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param('{"a": {"b": 1, "b": 2}}', "the key 'b' stands twice", id="repeated"),
        pytest.param('{"a": NaN}', "NaN is not a JSON number", id="nan"),
        pytest.param("[-Infinity]", "-Infinity is not a JSON number", id="infinity"),
        pytest.param('{"a": 1e999}', "the number 1e999 is too large", id="float"),
        pytest.param(
            f'{{"a": 1{"0" * 400}}}', "the number 10000000000000000000 is too large", id="whole"
        ),
        pytest.param("[" * 100_000, "its values are nested too deeply", id="endless"),
        pytest.param(
            "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
            "its values are nested too deeply",
            id="deep",
        ),
        pytest.param('["\\ud800"]', "\\ud800 is half a character", id="surrogate"),
        pytest.param('{"\\udfff": 1}', "\\udfff is half a character", id="surrogate key"),
        pytest.param("", "Expecting value: line 1 column 1 (char 0)", id="empty"),
    ],
)
def test_what_is_no_strict_json_names_the_file(text: str, reason: str, tmp_path: Path) -> None:
    """What Python reads and JSON cannot say ends in the error that was asked for."""
    file = tmp_path / "limits.json"
    file.write_text(text)

    with pytest.raises(OutputsError) as refused:
        load_json_strict(file, what="limits", error=OutputsError, remedy="Write them anew.")

    assert str(refused.value) == (
        f"limits must be a readable JSON file; got path={file}: {reason}. Write them anew."
    )


def test_the_deepest_json_is_read() -> None:
    """A hundred levels are read."""
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH

    assert json.dumps(parse_json_strict(text)) == text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(None, "No such file or directory", id="missing"),
        pytest.param(
            b"\xff",
            "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
            id="bytes",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    """A missing file, and one that is no text, are named with the reason."""
    file = tmp_path / "limits.json"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(OutputsError) as refused:
        load_json_strict(file, what="limits", error=OutputsError)

    assert str(refused.value) == (
        f"limits must be a readable JSON file; got path={file}: {reason}."
    )


@pytest.mark.parametrize("text", ['["\\uD83D\\uDE00"]', '["\\u00e9"]', '["é😀"]'])
def test_a_whole_pair_of_surrogates_is_a_character(text: str) -> None:
    """An escaped pair, another escape and the characters themselves are read."""
    assert parse_json_strict(text) == json.loads(text)


def test_half_a_character_is_refused_unescaped() -> None:
    """A lone surrogate that stands in the text itself is refused as an escaped one is."""
    with pytest.raises(ValueError, match="is half a character"):
        parse_json_strict('["\ud800"]')
