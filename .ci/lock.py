"""Write requirements.lock and environment.yml from pyproject.toml (`make lock`).

One universal resolution serves Python 3.11 to 3.13 on every system; pins already in the lock
are kept unless `--upgrade` is given.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
# Not llamacpp, which would make everybody compile it.
LOCKED_EXTRAS = ("book", "dev", "exports")
ENVIRONMENT = ROOT / "environment.yml"

# torch pins these exactly in its own metadata, and only its CUDA builds want them: naming them
# here would load gigabytes onto machines where pip finds a CPU build.
OF_TORCH = re.compile(r"^(nvidia-|cuda-|triton==)")
DIRECT = re.compile(r"^([a-z0-9.-]+==[^ ]+) .*# via .*\blabkit \(pyproject\.toml\)$")

HEADER = """\
# Every package the lab was run with, for Python 3.11 to 3.13. Made by `make lock`; do not edit.
# torch is named without a build: pip takes the CUDA build from PyPI on Linux, or a CPU build
# where its index offers one. The CUDA libraries are left out: torch itself pins them.
"""

ENVIRONMENT_HEAD = """\
# For conda, mamba and Binder: `mamba env create -f environment.yml` has the lab itself as well.
# The pip section holds the direct requirements of requirements.lock. Made by `make lock`.
name: labkit
channels:
  - conda-forge
dependencies:
  - python>=3.11,<3.14
  - pip
  - pip:
"""
ITSELF = "      - -e .\n"


def resolve(extra: list[str]) -> list[str]:
    """Return the resolved pins, one a line, with what asks for each."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml"]
    command += [f"--extra={name}" for name in LOCKED_EXTRAS]
    command += ["--universal", "--python-version", "3.11", "--annotation-style", "line"]
    command += ["--no-header", "--no-emit-index-url", "--no-emit-find-links", "--quiet"]
    subprocess.run([*command, "--output-file", LOCK.name, *extra], cwd=ROOT, check=True)
    return LOCK.read_text(encoding="utf-8").splitlines()


def direct_pins(lines: list[str]) -> list[str]:
    """Return the pins that pyproject.toml asks for itself."""
    return [match.group(1) for line in lines if (match := DIRECT.match(line))]


def main() -> None:
    """Resolve, drop what belongs to torch, and write both files."""
    lines = [line for line in resolve(sys.argv[1:]) if not OF_TORCH.match(line)]
    # A machine whose index has only a CPU build reports it as a local version.
    lines = [re.sub(r"^(torch==[0-9.]+)\+\w+", r"\1", line) for line in lines]
    LOCK.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    pins = "".join(f"      - {pin}\n" for pin in direct_pins(lines))
    ENVIRONMENT.write_text(ENVIRONMENT_HEAD + pins + ITSELF, encoding="utf-8")


if __name__ == "__main__":
    main()
