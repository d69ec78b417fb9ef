"""What the lab has measured of the options that set a field: verdicts of a preservation section."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.errors import ResultsError
from labkit.files import parse_json_strict, shown
from labkit.record.layers import FieldInfo, Json

PRESERVING, DIFFERENT = "preserving", "different artefact"
VERDICTS = (PRESERVING, DIFFERENT, "undetermined", "not applicable", "not applied")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOption:
    """One row of a preservation table.

    Attributes:
        knob: The option's registered name.
        params: Its parameters.
        label: The option in words.
        verdict: What was found.
    """

    knob: str
    params: Mapping[str, Any]
    label: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The verdicts of one run.

    Attributes:
        source: The file they were read from, or a word for none.
        options: Every option that was run.
    """

    source: str
    options: tuple[MeasuredOption, ...]

    def of_value(self, info: FieldInfo, value: Json | None) -> tuple[MeasuredOption, ...]:
        """Return what was measured of exactly this value; nothing for the plain run's own."""
        return tuple(
            option
            for option in self.options
            if any(_is_set_by(value, token, option) for token in info.knobs)
        )

    def of_others(self, info: FieldInfo, value: Json | None) -> tuple[MeasuredOption, ...]:
        """Return what was measured of the same option at other values, where it has values."""
        tokens = [token for token in info.knobs if _is_askable(value, token)]
        names = {token.partition(":")[0] for token in tokens}
        return tuple(option for option in self.options if option.params and option.knob in names)


NOTHING_MEASURED = Measured(source="no measurement", options=())


def read_measured(path: str | Path) -> Measured:
    """Read the verdicts of a results.json, or of the one in a run's folder.

    Raises:
        ResultsError: If it cannot be read or has no measured preservation section.
    """
    place = Path(path)
    file = place / "results.json" if place.is_dir() else place
    try:
        section = parse_json_strict(file.read_text(encoding="utf-8"))["preservation"]
        options = tuple(_option(row) for row in section["rows"])
    except OSError as error:
        raise ResultsError(
            f"Verdicts must come from a file that can be read; got path={shown(file)}: "
            f"{str(error.strerror).lower()}. Make one with `labkit preservation --run FOLDER`."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(
            f"Verdicts must come from results with a preservation section; got "
            f"path={shown(file)}, error={type(error).__name__}: {error}. "
            "Make one with `labkit preservation --run FOLDER`."
        ) from error
    return Measured(source=shown(file), options=options)


def _option(row: Mapping[str, Any]) -> MeasuredOption:
    for name in ("option", "label"):
        _require(isinstance(row[name], str), name, row[name], "a text")
    _require(isinstance(row["params"], dict), "params", row["params"], "an object")
    _require(row["verdict"] in VERDICTS, "verdict", row["verdict"], f"one of {', '.join(VERDICTS)}")
    return MeasuredOption(
        knob=row["option"].partition(":")[0],
        params=row["params"],
        label=row["label"],
        verdict=row["verdict"],
    )


def _require(holds: bool, name: str, value: object, what: str) -> None:
    if not holds:
        raise ValueError(f"{name}={value!r} must be {what}")


def _is_set_by(value: Json | None, token: str, option: MeasuredOption) -> bool:
    """Say whether a field's value is the one that an option sets.

    A token is `knob` where the value is its parameters, or its name; `knob=value` where the
    knob stands for one value; `knob:parameter` where the value is that parameter's.
    """
    knob, _, stands_for = token.partition("=")
    name, _, parameter = knob.partition(":")
    if option.knob != name or value is None:
        return False
    if stands_for:
        return value == stands_for
    if parameter:
        return _single(value) == option.params.get(parameter)
    if isinstance(value, dict):
        return all(value.get(key) == asked for key, asked in option.params.items())
    return value == name


def _is_askable(value: Json | None, token: str) -> bool:
    """Say whether a value is one that the option could have set, at some parameters."""
    if "=" in token or value is None:
        return False
    if ":" in token:
        return _single(value) not in (None, 1)
    return isinstance(value, dict)


def _single(value: Json) -> Json | None:
    """Return the one number or name that a value stands for, None where it is the plain run's.

    Pieces of a prompt stand for the size of the first, if there are several.
    """
    if not isinstance(value, list):
        return value
    if value and isinstance(value[0], int):
        return value[0] if len(value) > 1 else None
    return value[0] if len(value) == 1 else None


def in_words(options: Iterable[MeasuredOption]) -> str:
    """Return what was measured as one phrase."""
    return "; ".join(f"{option.label}: {option.verdict}" for option in options)
