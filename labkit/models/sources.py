"""What `--model` names: a published model, a local folder, or a hub id with a revision."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import ModelError
from labkit.models.catalogue import CATALOGUE, EMBEDDED, model_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A resolved model source: what to load, and under which name to report it.

    Attributes:
        name: Short display name, without machine paths.
        location: A local folder, or a hub id.
        revision: The hub revision; `None` for local folders.
        origin: `embedded`, `folder` or `hub`.
    """

    name: str
    location: str
    revision: str | None
    origin: str


def resolve(model: str = "embedded", *, revision: str | None = None) -> Source:
    """Decide what `--model` names: `embedded`, a local folder, or a hub id with a revision.

    Raises:
        ModelError: If it is none of these, or a hub id comes without a revision.
    """
    if model == "embedded" or model in CATALOGUE:
        name = EMBEDDED if model == "embedded" else model
        return Source(name=name, location=str(model_folder(name)), revision=None, origin="embedded")
    folder = Path(model).expanduser()
    if folder.is_dir():
        return _resolve_folder(folder)
    if folder.exists() or model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise ModelError(
            f"a model is `embedded`, a folder with safetensors, or a hub id such as "
            f"`owner/name`; got {model!r}, which is none of these."
        )
    if not revision or not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise ModelError(
            "a hub model needs the full commit hash (40 hex digits) as its revision, since a "
            f"branch or tag can move; got model={model!r}, revision={revision!r}. Add --revision "
            f"with a commit of {model}."
        )
    return Source(name=model, location=model, revision=revision, origin="hub")


def _resolve_folder(folder: Path) -> Source:
    if not (folder / "config.json").is_file():
        raise ModelError(f"a model folder must hold config.json; {folder} has none.")
    if not any(folder.glob("*.safetensors")):
        pickles = sorted(path.name for path in folder.glob("*.bin"))
        found = f"found {', '.join(pickles[:3])}" if pickles else "found no weights"
        raise ModelError(
            f"a model folder must hold *.safetensors; {found} in {folder}. Pickle files are "
            "never loaded; convert them with save_pretrained first."
        )
    return Source(name=folder.resolve().name, location=str(folder), revision=None, origin="folder")
