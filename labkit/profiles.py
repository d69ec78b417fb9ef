"""Profiles: the only place where the size of a run lives."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from labkit.errors import ProfileError
from labkit.files import data_file, find_root, shown, write_atomically

DEVICES = ("cpu", "cuda")
DTYPES = ("float16", "bfloat16", "float32")

Selection = Literal["all"] | tuple[str, ...]
# A check takes the source, the field's name and its value; each returns its own field's type.
_Check = Callable[[str, str, object], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The size of the float32 lane of the convergence test."""

    prompts: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The size of a run, its model and its device.

    Attributes:
        name: How it is asked for; the name of its file.
        description: What it is for, in one sentence.
        model: `embedded`, a local folder, or a hub id.
        revision: A hub id's commit or tag.
        device: `cpu` or `cuda`.
        dtype: The baseline's arithmetic.
        prompts: Passages per row.
        prompt_tokens: Tokens per passage.
        steps: Greedy tokens per run.
        rope_prompts: Passages of the row that takes RoPE scaling away.
        float32_lane: Size of the float32 lane.
        knobs: `all`, or the names of the rows to run.
        probes: `all`, or the ids of the probes to run.
    """

    name: str
    description: str
    model: str
    revision: str | None
    device: str
    dtype: str
    prompts: int
    prompt_tokens: int
    steps: int
    rope_prompts: int
    float32_lane: Lane
    knobs: Selection
    probes: Selection

    def to_json(self) -> dict[str, object]:
        """Return the profile as plain JSON, in the order of its file."""
        plain = dataclasses.asdict(self)
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()
        }


def profiles_folder() -> Path:
    """Return the folder that holds the lab's own profiles."""
    return data_file("profiles")


def profile_names(folder: Path | None = None) -> list[str]:
    """Return the names that can be asked for, sorted."""
    return sorted(path.stem for path in (folder or profiles_folder()).glob("*.yaml"))


def load_profile(name: str | Path, *, folder: Path | None = None) -> Profile:
    """Read a profile by its name, or from a YAML file of your own.

    A relative path is looked for in the working folder, then under the clone.

    Raises:
        ProfileError: If there is none of that name, it cannot be read, or a field is unknown,
            missing or ill-typed.
    """
    own_file = str(name).endswith((".yaml", ".yml"))
    path = _own_path(name) if own_file else (folder or profiles_folder()) / f"{name}.yaml"
    if not path.is_file():
        raise _unknown(str(name), folder=folder, path=Path(name) if own_file else None)
    return parse_profile(_read_text(path), source=shown(path), name=path.stem)


def write_profile(profile: Profile, path: Path) -> None:
    """Write a profile to a file that `load_profile` reads back equal."""
    import yaml

    text = yaml.safe_dump(profile.to_json(), sort_keys=False, allow_unicode=True)
    write_atomically(path, text)


def _own_path(name: str | Path) -> Path:
    """Return where a file of one's own is: in the working folder, or else under the clone."""
    path = Path(name).expanduser()
    # Notebooks run in their own folder and are handed a path relative to the clone.
    return path if path.is_file() else find_root() / path


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ProfileError(
            f"A profile must be UTF-8 text; got path={shown(path)}, byte={error.start}: "
            f"{error.reason}. Save it as UTF-8."
        ) from error
    except OSError as error:
        raise ProfileError(
            f"A profile's file must be readable; got path={shown(path)}, error={error.strerror}. "
            "Check its owner and mode."
        ) from error


def parse_profile(text: str, *, source: str, name: str) -> Profile:
    """Build a profile from YAML text.

    Args:
        text: The file's content.
        source: The file's name, for messages.
        name: What its `name` field must be.
    """
    stored = _read_yaml(text, source=source)
    values = _checked(stored, checks=_CHECKS, source=source)
    if values["name"] != name:
        raise _ill(source, "name", values["name"], must=f"be {name!r}, as its file is called")
    if values["rope_prompts"] > values["prompts"]:
        must = f"be at most prompts={values['prompts']}"
        raise _ill(source, "rope_prompts", values["rope_prompts"], must=must)
    return Profile(**values)


_MERGE = "tag:yaml.org,2002:merge"


def _read_yaml(text: str, *, source: str) -> Mapping[str, object]:
    """Return the mapping that a YAML text holds; loads pyyaml only here."""
    import yaml

    class Strict(yaml.SafeLoader):
        """Refuses a field that stands twice, of which YAML would keep the last."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            # before merging, after which a field may rightly stand twice
            if isinstance(node, yaml.MappingNode):
                stated = [key for key, _ in node.value if key.tag != _MERGE]
                self._refuse_repeated(stated)
            return super().construct_mapping(node, deep=deep)

        def _refuse_repeated(self, nodes: list[Any]) -> None:
            keys = [self.construct_object(node, deep=True) for node in nodes]
            for place, key in enumerate(keys):
                if key in keys[:place]:
                    raise ProfileError(
                        f"A profile must state each field once; got {key!r} again in {source}, "
                        f"line {nodes[place].start_mark.line + 1}. Remove one of both."
                    )

    try:
        stored = yaml.load(text, Loader=Strict)
    # pyyaml lets through what Python says of a date such as 2026-13-01 or of `!!bool maybe`.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
        raise ProfileError(f"A profile must be YAML; got {source}: {error}") from error
    if not isinstance(stored, dict):
        raise ProfileError(
            f"A profile must be a mapping of fields; got {type(stored).__name__} in {source}."
        )
    return stored


def _checked(
    stored: Mapping[str, object], *, checks: Mapping[str, _Check], source: str
) -> dict[str, Any]:
    """Return the fields after their checks, in the order of the checks."""
    for key in stored:
        if key not in checks:
            near = difflib.get_close_matches(str(key), checks, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(checks)}."
            raise ProfileError(f"A profile has no field {key!r}; got it in {source}. {hint}")
    if missing := [key for key in checks if key not in stored]:
        raise ProfileError(
            f"A profile must state every field; missing in {source}: {', '.join(missing)}."
        )
    return {key: check(source, key, stored[key]) for key, check in checks.items()}


def _text(source: str, key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _ill(source, key, value, must="be a text")
    return value.strip()


def _text_or_none(source: str, key: str, value: object) -> str | None:
    return None if value is None else _text(source, key, value)


def _count(source: str, key: str, value: object) -> int:
    # bool is an int to Python; `prompts: yes` is not a count.
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _ill(source, key, value, must="be a whole number of at least 1")
    return value


def _one_of(choices: tuple[str, ...]) -> _Check:
    def check(source: str, key: str, value: object) -> str:
        if value not in choices:
            raise _ill(source, key, value, must=f"be one of {', '.join(choices)}")
        return str(value)

    return check


def _lane(source: str, key: str, value: object) -> Lane:
    if not isinstance(value, dict):
        raise _ill(source, key, value, must="be a mapping of prompts and steps")
    fields = {f"{key}.{name}": item for name, item in value.items()}
    checks = {f"{key}.prompts": _count, f"{key}.steps": _count}
    counts = _checked(fields, checks=checks, source=source)
    return Lane(prompts=counts[f"{key}.prompts"], steps=counts[f"{key}.steps"])


def _selection(source: str, key: str, value: object) -> Selection:
    if value == "all":
        return "all"
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise _ill(source, key, value, must="be 'all' or a list of names")


def _ill(source: str, key: str, value: object, *, must: str) -> ProfileError:
    return ProfileError(f"{key} must {must}; got {key}={value!r}. Correct it in {source}.")


def _unknown(name: str, *, folder: Path | None, path: Path | None) -> ProfileError:
    if path is not None:
        return ProfileError(
            f"A profile's file must exist; got path={path}. Name a file that does, "
            f"or one of {', '.join(profile_names(folder))}."
        )
    known = profile_names(folder)
    if Path(name).suffix or Path(name).name != name:
        return ProfileError(
            f"A profile of your own must be a .yaml file; got profile={name!r}. "
            f"Write it as YAML, or name one of {', '.join(known)}."
        )
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
    return ProfileError(f"A profile must be one of the lab's; got profile={name!r}. {hint}")


_CHECKS: Mapping[str, _Check] = {
    "name": _text,
    "description": _text,
    "model": _text,
    "revision": _text_or_none,
    "device": _one_of(DEVICES),
    "dtype": _one_of(DTYPES),
    "prompts": _count,
    "prompt_tokens": _count,
    "steps": _count,
    "rope_prompts": _count,
    "float32_lane": _lane,
    "knobs": _selection,
    "probes": _selection,
}
