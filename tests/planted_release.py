"""A release that was never published: a stub of transformers and torch, put into a real venv."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from labkit.experiments._release_environment import ReleaseEnvironment, make_environment

RELEASE = "0.0.1"

# Takes any option under any name, dies of one request and has no other class.
_TRANSFORMERS = """
import os, signal

__version__ = "0.0.1"


class GenerationConfig:
    def __init__(self, **options):
        self.temperature = 1.0
        vars(self).update(options)


def BitsAndBytesConfig(**options):
    os.kill(os.getpid(), signal.SIGKILL)
"""

_TORCH = """
from types import SimpleNamespace

cuda = SimpleNamespace(is_available=lambda: False)
get_num_threads = lambda: 1
is_warn_always_enabled = lambda: False
set_warn_always = lambda on: None
"""


def install_stub(release: str, python: Path) -> None:
    """Put the stubs into an environment, as pip would put a release."""
    plant(python, transformers=_TRANSFORMERS, version=release)


def install_broken(release: str, python: Path) -> None:
    """Put a release into an environment that cannot be imported."""
    plant(python, transformers="raise ImportError('needs another torch')", version=release)


def plant(python: Path, *, transformers: str, version: str) -> None:
    """Write the packages and the version that their metadata states."""
    base = str(python.parent.parent)
    site = Path(sysconfig.get_path("purelib", scheme="venv", vars={"base": base, "platbase": base}))
    sources = {"transformers": (transformers, version), "torch": (_TORCH, "0.0.2")}
    for name, (source, stated) in sources.items():
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(source, encoding="utf-8")
        (site / f"{name}-{stated}.dist-info").mkdir()
        (site / f"{name}-{stated}.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {stated}\n", encoding="utf-8"
        )


def planted(release: str = RELEASE) -> ReleaseEnvironment:
    """Return an environment with the stub in it."""
    return make_environment(release, install=install_stub)


def small_matrix() -> dict[str, Any]:
    """Return a matrix of one release and two probes."""
    said = {"did_it": False, "substituted": True, "said": "careful", "why_not_askable": None}
    unasked = {"did_it": None, "substituted": False, "said": "", "why_not_askable": "no GPU"}
    return {
        "schema_version": 1,
        "library": "transformers",
        "probes": [
            {"number": 1, "probe": "asks_one", "asked": "one thing"},
            {"number": None, "probe": "asks_two", "asked": "another"},
        ],
        "releases": [
            {
                "release": "1.0.0",
                "asked_utc": "2026-01-01T00:00:00Z",
                "elapsed_s": 1.0,
                "probes_digest": "0" * 64,
                "device_asked": "cpu",
                "template_of": None,
                "python": "3.11.0",
                "packages": {"torch": "2.0.0", "transformers": "1.0.0"},
                "device": {},
                "rows": [
                    {"probe": "asks_one", "outcome": "warned", **said},
                    {"probe": "asks_two", "outcome": "not_askable", **unasked},
                ],
            }
        ],
    }
