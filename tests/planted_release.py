"""A release that was never published: a stub of transformers and torch, put into a real venv."""

from __future__ import annotations

import sysconfig
from pathlib import Path

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
