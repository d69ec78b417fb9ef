"""Config files: strict JSON, with messages that name the file, the place and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.errors import ConfigError
from labkit.spec import iter_config_files, read_config_file

BROKEN = [
    pytest.param(
        '{"model_type": "llama",\n "n_layer": 3',
        "must be complete JSON; it stops making sense at line 2, column 14",
        id="truncated",
    ),
    pytest.param("", "must be complete JSON; it stops making sense at line 1", id="empty"),
    pytest.param("null", "must hold a JSON object; got null", id="null"),
    pytest.param('"llama"', "must hold a JSON object; got a string", id="string"),
    pytest.param("[1]", "must hold a JSON object; got an array", id="array"),
    pytest.param("true", "must hold a JSON object; got a boolean", id="boolean"),
    pytest.param("3.5", "must hold a JSON object; got a number", id="number"),
    pytest.param('{"a": 1, "a": 2}', "must state each key once; got 'a' twice", id="repeated"),
    pytest.param('{"x": {"a": 1, "a": 1}}', "got 'a' twice in one object", id="repeated-inside"),
    pytest.param("[" * 100_000, "is nested too deeply", id="too-deep"),
    pytest.param('{"a": ' + "9" * 5000 + "}", "JSON with plausible numbers", id="too-long-number"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_a_broken_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The message says what is wrong, and in which file."""
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError) as refused:
        read_config_file(file)

    assert str(file) in str(refused.value)
    assert message in str(refused.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are named by their place."""
    file = tmp_path / "model.json"
    file.write_bytes(b'{"a": "\xff"}')

    with pytest.raises(ConfigError, match="must be UTF-8 text; byte 7 is not"):
        read_config_file(file)


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    """Editors put the mark there; it changes nothing."""
    file = tmp_path / "config.json"
    file.write_bytes(b'\xef\xbb\xbf{"model_type": "llama"}')

    assert read_config_file(file) == {"model_type": "llama"}


def test_bare_infinity_is_read(tmp_path: Path) -> None:
    """Transformers writes it; whether it matters is the fingerprint's to say."""
    file = tmp_path / "config.json"
    file.write_text('{"time_step_limit": [0.0, Infinity]}', encoding="utf-8")

    assert read_config_file(file) == {"time_step_limit": [0.0, float("inf")]}


def test_a_folder_stands_for_its_config(tmp_path: Path) -> None:
    """A checkpoint's folder is as good as the file in it."""
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")

    assert read_config_file(tmp_path) == {"model_type": "llama"}
    assert list(iter_config_files([tmp_path])) == [tmp_path / "config.json"]


def test_a_folder_of_configs_stands_for_all_of_them(tmp_path: Path) -> None:
    """Without a config.json every JSON file counts, in the order of names."""
    for name in ("b.json", "a.json", "notes.txt"):
        (tmp_path / name).write_text("{}", encoding="utf-8")

    assert [file.name for file in iter_config_files([tmp_path])] == ["a.json", "b.json"]
    assert list(iter_config_files([tmp_path / "b.json"])) == [tmp_path / "b.json"]


def test_a_folder_of_checkpoints_stands_for_their_configs(tmp_path: Path) -> None:
    """A folder that holds checkpoint folders gives the config of each."""
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}", encoding="utf-8")

    files = [tmp_path / name / "config.json" for name in ("a", "b")]
    assert list(iter_config_files([tmp_path])) == files


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A missing file and a folder without configs each say what to name instead."""
    with pytest.raises(ConfigError, match=r"must exist; got .*nowhere"):
        read_config_file(tmp_path / "nowhere.json")
    with pytest.raises(ConfigError, match=r"must exist; got .*nowhere"):
        list(iter_config_files([tmp_path / "nowhere"]))
    with pytest.raises(ConfigError, match=r"must hold config\.json or other"):
        list(iter_config_files([tmp_path]))
