"""Config files on disk: strict JSON with names, places and no half answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from labkit.errors import ConfigError
from labkit.files import RepeatedKeyError, unique_keys

CONFIG_NAME = "config.json"

_TYPE_WORDS = {type(None): "null", str: "a string", bool: "a boolean", list: "an array"}


def read_config_file(path: str | Path) -> dict[str, object]:
    """Read one config.json, or the one inside a folder.

    Bare `NaN` and `Infinity` are read as Python's json does; `fingerprint` refuses them
    where a figure depends on them, and names the field.

    Args:
        path: A file, or a folder that holds `config.json`.

    Returns:
        The JSON object.

    Raises:
        ConfigError: If there is no such file, it is no JSON, it repeats a key, or its top
            level is no object.
    """
    try:
        return _parse(_read_text(path), file=path)
    except IsADirectoryError:
        file = Path(path) / CONFIG_NAME
        return _parse(_read_text(file), file=file)


def iter_config_files(paths: Iterable[str | Path]) -> Iterator[Path]:
    """Yield the config files that files and folders stand for, in a stable order.

    A folder with a `config.json` stands for that file, another for all its `*.json` files,
    and one without any for the `config.json` of each folder in it.

    Raises:
        ConfigError: If a path does not exist, or a folder holds no JSON file.
    """
    for path in map(Path, paths):
        if not path.is_dir():
            if not path.exists():
                raise ConfigError(_missing(path))
            yield path
        elif (path / CONFIG_NAME).is_file():
            yield path / CONFIG_NAME
        else:
            found = sorted(file for file in path.glob("*.json") if file.is_file())
            found = found or sorted(path.glob(f"*/{CONFIG_NAME}"))
            if not found:
                raise ConfigError(
                    f"A folder of configs must hold {CONFIG_NAME} or other *.json files; "
                    f"got {path} with none. Name the checkpoint's folder or the file itself."
                )
            yield from found


def _read_text(file: str | Path) -> str:
    try:
        with open(file, encoding="utf-8-sig") as stream:  # noqa: PTH123  # half the time of Path
            return stream.read()
    except IsADirectoryError:
        raise  # the caller looks inside
    except FileNotFoundError:
        raise ConfigError(_missing(file)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file} must be UTF-8 text; byte {error.start} is not. "
            "Check that it is the config.json and not the weights."
        ) from None
    except OSError as error:
        raise ConfigError(f"{file} must be readable; got: {error.strerror or error}.") from None


def _parse(text: str, *, file: str | Path) -> dict[str, object]:
    try:
        document = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{file} must be complete JSON; it stops making sense at line {error.lineno}, "
            f"column {error.colno}: {error.msg}. Fetch the file again."
        ) from None
    except RecursionError:
        raise ConfigError(f"{file} must be a config; its JSON is nested too deeply.") from None
    except RepeatedKeyError as error:
        raise ConfigError(
            f"{file} must state each key once; got {error.key!r} twice in one object. "
            "Remove the stale one."
        ) from None
    except ValueError as error:
        raise ConfigError(f"{file} must be JSON with plausible numbers; got: {error}.") from None
    if isinstance(document, dict):
        return document
    word = _TYPE_WORDS.get(type(document), "a number")
    raise ConfigError(f"{file} must hold a JSON object; got {word}. Name a model's config.json.")


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)


def _missing(path: str | Path) -> str:
    return f"A config path must exist; got {path}. Name a config.json or a folder that holds one."
