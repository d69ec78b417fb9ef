"""The notebooks in JupyterLab, as `make lab` opens them."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from built_site import ROOT
from test_pages import Seen

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
SHORTEST = "01_fingerprints.ipynb"
WITHIN_S = 300.0  # on free cores a start takes five seconds and the run twelve
# Each Python process of the server, its kernels included, writes down whom it calls by name or
# number; a path or a loopback address is the machine itself.
_WITNESS = """
import os, sys

def _note(event, args):
    host = {"socket.connect": lambda: args[1], "socket.getaddrinfo": lambda: args}.get(event)
    host = host and host()
    if isinstance(host, tuple) and host[0] not in ("127.0.0.1", "::1", "localhost", "", None):
        with open(os.environ["LABKIT_TEST_CALLS"], "a") as file:
            print(event, host[0], file=file)

sys.addaudithook(_note)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A JupyterLab over loopback, on a copy of the lab that a test may change."""

    url: str
    token: str
    clone: Path
    calls: Path

    def open(self, page: Page, notebook: str) -> None:
        """Open a notebook and wait until its cells are shown and its kernel is idle."""
        page.goto(f"{self.url}/lab/tree/{notebook}?reset&token={self.token}")
        page.locator(".jp-NotebookPanel .jp-Cell, .jp-Dialog").first.wait_for()
        assert page.locator(".jp-Dialog").all_inner_texts() == []
        wait_until_idle(page)

    def called(self) -> list[str]:
        """Return which hosts the server and its kernels called."""
        return self.calls.read_text(encoding="utf-8").splitlines()


def flags_of_make_lab() -> list[str]:
    """Return what `make lab` passes to JupyterLab."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    command = re.search(r"^\t\$\(BIN\)/jupyter lab (.*)$", recipe, re.MULTILINE)
    assert command
    return command[1].split()


def copy_lab(folder: Path) -> Path:
    """Copy what a notebook needs; its outputs are left out, so that any that show are new."""
    clone, unwanted = folder / "clone", shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for part in ("labkit", "notebooks"):
        shutil.copytree(ROOT / part, clone / part, ignore=unwanted)
    shutil.copy(ROOT / "pyproject.toml", clone)
    (clone / "data").symlink_to(ROOT / "data")
    path = clone / "notebooks" / SHORTEST
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in code_cells(notebook):
        cell.update(outputs=[], execution_count=None)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return clone


def environment(folder: Path, clone: Path) -> dict[str, str]:
    """Return an environment in which Jupyter keeps to the folder and the witness is loaded."""
    (folder / "witness").mkdir()
    (folder / "witness" / "sitecustomize.py").write_text(_WITNESS, encoding="utf-8")
    (folder / "calls").touch()
    kept = ("CONFIG", "DATA", "RUNTIME")
    return {
        **os.environ,
        **{f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in kept},
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": os.pathsep.join([str(folder / "witness"), str(clone)]),
        "LABKIT_TEST_CALLS": str(folder / "calls"),
    }


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_up(lab: Lab, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers, or fail with what it printed."""
    deadline = time.monotonic() + WITHIN_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{lab.url}/api/status?token={lab.token}", timeout=5).close()
            return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start: {log.read_text(encoding='utf-8')[-2000:]}")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start JupyterLab with the flags of `make lab`, and end it with its kernels."""
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed")
    folder = tmp_path_factory.mktemp("lab")
    clone, token, port = copy_lab(folder), secrets.token_hex(), free_port()
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"]
    command += [f"--IdentityProvider.token={token}", "--ip=127.0.0.1", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", *flags_of_make_lab()]
    found = Lab(url=f"http://127.0.0.1:{port}", token=token, clone=clone, calls=folder / "calls")
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=clone, env=environment(folder, clone), stdout=log, stderr=log
        )
        try:
            wait_until_up(found, server, folder / "log")
            yield found
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


@pytest.fixture
def page(lab: Lab, browser: Browser) -> Iterator[Page]:
    """Open an empty window of its own."""
    window = browser.new_context(viewport={"width": 1280, "height": 900})
    window.set_default_timeout(WITHIN_S * 1000)
    yield window.new_page()
    window.close()


@pytest.fixture
def seen(lab: Lab, page: Page) -> Seen:
    """Take down what the window asks for."""
    seen = Seen()
    seen.watch(page, home=lab.url)
    return seen


def wait_until_idle(page: Page) -> None:
    """Wait until the status bar names a kernel that has nothing to do."""
    page.get_by_text(re.compile(r"\| Idle$")).wait_for()


def code_cells(notebook: dict) -> list[dict]:
    """Return the code cells of a notebook."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


# Each code cell has its number in brackets; before that they hold a space or an asterisk.
_ALL_NUMBERED = r"""number => {
    const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')];
    return prompts.length === number && prompts.every(p => /^\[\d+\]/.test(p.textContent));
}"""


def run_all(page: Page, *, cells: int) -> None:
    """Run every cell by the menu, and wait until so many have run."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(_ALL_NUMBERED, arg=cells)
    wait_until_idle(page)


def saved(page: Page, path: Path) -> list[dict]:
    """Save the notebook and return its code cells, as the file has them."""
    with page.expect_response(lambda answer: answer.request.method == "PUT" and answer.ok):
        page.keyboard.press("Control+s")
    return code_cells(json.loads(path.read_text(encoding="utf-8")))


# How many colours the drawing has: a blank one has a single one.
_COLOURS = """canvas => new Set(new Uint32Array(canvas.getContext('2d')
    .getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""


def test_a_notebook_runs_and_draws(lab: Lab, page: Page, seen: Seen) -> None:
    """Every cell runs without an error, the chart is drawn, and nobody else is asked."""
    path = lab.clone / "notebooks" / SHORTEST
    lab.open(page, SHORTEST)
    run_all(page, cells=len(code_cells(json.loads(path.read_text(encoding="utf-8")))))
    chart = page.locator(".jp-OutputArea-output .vega-embed canvas")
    chart.scroll_into_view_if_needed()
    colours = chart.evaluate(_COLOURS)
    cells = saved(page, path)
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}

    assert colours > 10
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert "error" not in kinds
    assert (seen.external, seen.errors, lab.called()) == ([], [], [])


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_a_notebook_opens(lab: Lab, page: Page, seen: Seen, notebook: str) -> None:
    """A notebook opens with its cells and its kernel, no dialog, and no call elsewhere."""
    lab.open(page, notebook)

    assert page.locator(".jp-Dialog").count() == 0
    assert (seen.external, seen.errors, lab.called()) == ([], [], [])
