"""Packaging: one source of requirements, commands that exist, rooms that import downwards."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from support import CASES, ROOT

import labkit
from labkit.cli import build_parser

PIN = re.compile(
    r"^(?P<name>[a-z0-9.-]+)==(?P<version>[^ ]+)(?: ; (?P<marker>.+?))? +# via (?P<via>.+)$"
)
OURS = "labkit (pyproject.toml)"
DOCS = ("README.md", "CONTRIBUTING.md")


def read(name: str) -> str:
    """Return the text of a file of the clone."""
    return (ROOT / name).read_text(encoding="utf-8")


def pins() -> list[re.Match[str]]:
    """Return every pin of the lock."""
    lines = [line for line in read("requirements.lock").splitlines() if not line.startswith("#")]
    found = [PIN.match(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
    return [match for match in found if match]


def project() -> dict:
    """Return the project table of pyproject.toml."""
    return tomllib.loads(read("pyproject.toml"))["project"]


def direct_requirements() -> list[Requirement]:
    """Return what pyproject.toml asks for, with every extra but the one that is compiled."""
    table = project()
    extras = [v for k, v in table["optional-dependencies"].items() if k != "llamacpp"]
    return [Requirement(text) for texts in (table["dependencies"], *extras) for text in texts]


def test_the_lock_pins_every_direct_requirement() -> None:
    """Each requirement of pyproject.toml is pinned once in the lock, inside its bounds."""
    direct = {pin["name"]: pin["version"] for pin in pins() if OURS in pin["via"]}
    asked = {canonicalize_name(item.name): item.specifier for item in direct_requirements()}

    assert set(direct) == set(asked)
    assert all(asked[name].contains(version) for name, version in direct.items())


def test_the_conda_environment_has_the_same_pins() -> None:
    """The pip section of environment.yml is the lock's direct requirements, and the lab itself."""
    environment = yaml.safe_load(read("environment.yml"))
    (section,) = [item["pip"] for item in environment["dependencies"] if isinstance(item, dict)]

    direct = [f"{pin['name']}=={pin['version']}" for pin in pins() if OURS in pin["via"]]

    assert section == [*direct, "-e ."]


def test_the_lock_leaves_torchs_build_open() -> None:
    """The lock names no build of torch and none of its CUDA libraries."""
    names = {pin["name"]: pin["version"] for pin in pins()}

    assert "+" not in names["torch"]
    assert not [name for name in names if re.match(r"nvidia-|cuda-|triton", name)]


def test_the_lock_fits_every_python_it_is_for() -> None:
    """Each installed pin admits Python 3.11.2 (Debian 12) to 3.13, unless its marker says less."""
    refused = []
    for pin in pins():
        try:
            installed = metadata.metadata(pin["name"])
        except metadata.PackageNotFoundError:
            assert pin["marker"], f"{pin['name']} is neither installed nor for elsewhere"
            continue
        needs = SpecifierSet(installed["Requires-Python"] or "")
        if installed["Version"] == pin["version"] and not pin["marker"]:
            refused += [(pin["name"], v) for v in ("3.11.2", "3.12.3", "3.13.1") if v not in needs]

    assert refused == []


def test_the_public_names_are_sorted_and_real() -> None:
    """`__all__` is sorted and each name in it can be had."""
    constants = [name for name in labkit.__all__ if name.isupper()]
    classes = [name for name in labkit.__all__ if name[0].isupper() and name not in constants]
    others = [name for name in labkit.__all__ if name[0].islower()]

    assert labkit.__all__ == [*sorted(constants), *sorted(classes), *sorted(others)]
    assert all(getattr(labkit, name) is not None for name in labkit.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that the package does not have is refused as Python refuses it."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        labkit.nonsense  # noqa: B018  # the access is the test


def test_the_installed_package_is_this_one() -> None:
    """The version, the console script and the book's renderer are those of the metadata."""
    assert metadata.version("labkit") == labkit.__version__
    scripts = metadata.entry_points(group="console_scripts", name="labkit")
    assert [entry.value for entry in scripts] == ["labkit.cli:main"]
    (renderer,) = metadata.entry_points(group="myst_nb.mime_renderers", name="labkit_vega")
    assert renderer.load().__name__ == "VegaRenderer"


def test_the_schema_and_the_types_travel_with_the_package() -> None:
    """The files that are no Python lie inside the package."""
    package = Path(labkit.__file__).parent

    assert (package / "results.schema.json").is_file()
    assert (package / "sections/01_fingerprints.schema.json").is_file()
    assert (package / "py.typed").is_file()


@pytest.mark.parametrize("document", DOCS)
def test_the_make_targets_in_the_documents_exist(document: str) -> None:
    """Each `make X` that a document names is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", read(document), re.MULTILINE))

    assert named, f"{document} names no target"
    assert named <= targets


def test_the_makefile_has_the_targets_the_lab_promises() -> None:
    """The targets a newcomer is promised are there, and `make help` shows each."""
    promised = {
        "setup",
        "chapter",
        "quick",
        "book",
        "pdf",
        "lab",
        "bench",
        "test",
        "lint",
        "lock",
        "clean",
    }
    shown = set(re.findall(r"^([a-z]+):.*## ", read("Makefile"), re.MULTILINE))

    assert promised <= shown


@pytest.mark.parametrize("document", ["README.md", "Makefile", "CHANGELOG.md"])
def test_the_commands_in_the_documents_parse(document: str) -> None:
    """Each `labkit ...` line that a document or the Makefile shows is accepted by the parser."""
    parser = build_parser()
    text = read(document).replace("$(PROFILE)", "cpu")
    lines = re.findall(r"(?:^|\t|`|/)labkit ((?:[a-z-]+)[^`#\n]*)", text, re.MULTILINE)

    assert lines
    for line in lines:
        parser.parse_args(line.split())


def test_the_command_check_can_fail() -> None:
    """The parser that checks the documents refuses a command that does not exist."""
    with pytest.raises(SystemExit):
        build_parser().parse_args(["chapters"])


def test_the_readmes_plain_commands_are_what_make_runs() -> None:
    """The commands for machines without make install what the Makefile installs."""
    for part in ("--requirement requirements.lock", "--no-deps --editable .", "chapter --profile"):
        assert part in read("README.md")
        assert part in read("Makefile")


def test_the_readmes_python_runs() -> None:
    """The README's Python example prints a rejection with its reason."""
    (code,) = re.findall(r"```python\n(.*?)```", read("README.md"), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert "context: 1208 tokens exceed the 1024 positions of gpt2" in done.stdout, done.stderr


def test_the_ci_script_calls_make_test_and_stops_at_errors() -> None:
    """CI runs the same gate as a reader, and an error in it ends the script."""
    script = read(".ci/run")

    assert script.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in script
    assert script.rstrip().endswith("make test")


def test_every_case_file_is_read_by_a_test() -> None:
    """A case file that no test names would be cases that nobody runs."""
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    unread = [path.name for path in CASES.glob("*.json") if path.name not in sources]

    assert unread == []


def test_every_test_says_what_it_proves() -> None:
    """Each test function has a docstring."""
    silent = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tests = (
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        )
        silent += [f"{path.name}::{node.name}" for node in tests if not ast.get_docstring(node)]

    assert silent == []


def test_imports_go_downwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import contracts of pyproject.toml hold."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
