"""What a run runs on: commit, packages, device. It names no host and no folder."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

from labkit.files import find_root

_PACKAGES = (
    "altair",
    "gguf",
    "jupyter-book",
    "labkit",
    "llama-cpp-python",
    "mistral-common",
    "numpy",
    "papermill",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
)
_HEAD = "# branch.oid "  # of git's status, version 2


def read_commit() -> dict[str, object] | None:
    """Return the clone's commit and whether its tracked files differ from it."""
    try:
        lines = _git("status", "--porcelain=v2", "--branch", "--untracked-files=no").splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    heads = [line.removeprefix(_HEAD) for line in lines if line.startswith(_HEAD)]
    if heads in ([], ["(initial)"]):
        return None
    return {"id": heads[0], "dirty": any(not line.startswith("# ") for line in lines)}


def package_versions() -> dict[str, str]:
    """Return the installed versions of the packages that can change a result.

    They are looked up once a process: what it has loaded does not change after that.
    """
    return dict(_installed())


@cache
def _installed() -> dict[str, str]:
    # Loads the standard library's mail parser, which no command needs that only reads records.
    from importlib import metadata

    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe_device() -> dict[str, object]:
    """Return what the run computes on; torch is asked only if something loaded it already."""
    torch = sys.modules.get("torch")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads() if torch else None,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "accelerator": _accelerator(torch),
    }


def substrate() -> dict[str, object]:
    """Return what the machine and the installed packages are, by the record's fields.

    What only torch knows is left out until something has loaded it.
    """
    torch = sys.modules.get("torch")
    device, packages = describe_device(), package_versions()
    found = {name: value for name, value in device.items() if value is not None}
    if torch:
        found["accelerator"] = device["accelerator"] or "none"
        found["driver"] = f"CUDA {torch.version.cuda}" if torch.version.cuda else "none"
    found |= {name: packages.pop(name) for name in ("torch", "transformers") if name in packages}
    found |= {"python": platform.python_version(), "packages": packages}
    return {f"substrate.{name}": value for name, value in found.items()}


def _accelerator(torch: object) -> str | None:
    """Return the name of the CUDA device that torch sees."""
    cuda = getattr(torch, "cuda", None)
    return str(cuda.get_device_name(0)) if cuda and cuda.is_available() else None


def _processor() -> str:
    """Return the processor's model name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _git(*arguments: str) -> str:
    """Return what git prints about the clone."""
    command = ["git", "-C", str(find_root()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.strip()
