"""Which notebooks are finished: those made from the same inputs, whose copy still stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labkit import record
from labkit.chapter.executing import Parameters
from labkit.files import digest_files, digest_of, dump_json, find_root, write_atomically
from labkit.profiles import Profile
from labkit.results import SECTIONS, RunFolder

STATE_NAME = "chapter.json"


class Plan:
    """Which notebooks are finished, by the digest of everything they were made from."""

    def __init__(
        self, *, folder: RunFolder, parameters: Parameters, profile: Profile, paths: list[Path]
    ) -> None:
        self.folder = folder
        self.parameters = parameters
        self._file = folder.path / STATE_NAME
        common = common_inputs(profile, parameters)
        self._inputs = {
            path.stem: digest_of([common, digest_files([path], root=path.parent)]) for path in paths
        }
        self._state = self._read_state()
        self._results = folder.read()

    def target(self, path: Path) -> Path:
        """Return where a notebook's executed copy goes."""
        return self.folder.executed_path / path.name

    def is_done(self, path: Path) -> bool:
        """Return whether a notebook's copy stands, untouched, and was made from these inputs."""
        section = path.stem.partition("_")[2]
        if section in SECTIONS and self._results[section] is None:
            return False
        return self.target(path).is_file() and self._state.get(path.stem) == self._entry(path)

    def mark_done(self, path: Path) -> None:
        """Note that a notebook ran to its end from its present inputs."""
        self._state[path.stem] = self._entry(path)
        write_atomically(self._file, dump_json(self._state, what=STATE_NAME))

    def _entry(self, path: Path) -> dict[str, str]:
        target = self.target(path)
        output = digest_files([target], root=target.parent)
        return {"inputs": self._inputs[path.stem], "output": output}

    def _read_state(self) -> dict[str, Any]:
        """Return the state; a broken file means that nothing is known to be finished."""
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stored if isinstance(stored, dict) else {}


def common_inputs(profile: Profile, parameters: Parameters) -> dict[str, object]:
    """Return what every notebook depends on: sources, data, profile, versions, model."""
    root = find_root()
    package = Path(__file__).resolve().parent.parent
    sources = [path for path in package.rglob("*") if path.suffix in (".py", ".json")]
    data = [path for path in (root / "data").rglob("*") if path.is_file()]
    return {
        "sources": digest_files(sources, root=package),
        "data": digest_files(data, root=root),
        "profile": profile.to_json(),
        "parameters": dict(parameters),
        "packages": record.package_versions(),
        "model": _local_model(profile.model),
    }


def _local_model(model: str) -> list[tuple[str, int, int]]:
    """Return the names, sizes and times of a local model folder's files.

    The embedded model is pinned by digest in the sources, and a hub's by its revision.
    """
    files = [path for path in Path(model).expanduser().glob("*") if path.is_file()]
    stats = ((path.name, path.stat()) for path in sorted(files))
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
