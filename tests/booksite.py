"""Build a small site with the book's own configuration, for tests of what readers get."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sections
import yaml

from labkit import charts

ROOT = Path(__file__).resolve().parent.parent
_CALL = "from jupyter_book.cli.main import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A build of the book.

    Attributes:
        site: The folder of the site.
        status: The exit status of the build.
        log: What the build printed.
    """

    site: Path
    status: int
    log: str


def make_source(root: Path) -> None:
    """Lay out a book with every page of the contents, made up where a run would have made it."""
    shutil.copy(ROOT / "_config.yml", root / "_config.yml")
    shutil.copytree(ROOT / "book/_static", root / "book/_static")
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    shutil.copy(ROOT / "_toc.yml", root / "_toc.yml")
    pages = [contents["root"]]
    # The notebooks' pages are found by a pattern, and made below.
    chapters = [page for part in contents["parts"] for page in part["chapters"]]
    pages += [page["file"] for page in chapters if "file" in page]
    for page in pages:
        path = root / f"{page}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_page(page), encoding="utf-8")
    (root / "book/references.bib").write_text(_BIB, encoding="utf-8")
    (root / "book/references.md").write_text("# References\n\n```{bibliography}\n```\n", "utf-8")
    for page, made_charts in _charts_by_page().items():
        specs = [charts.mimebundle(chart.to_dict()) for chart in made_charts]
        table = _TABLES[page]()
        sections.write_notebook(
            root / f"book/run/{page}.ipynb",
            specs,
            table=table.to_html(),
            glued=charts.numbers_of("preservation", sections.preservation()),
        )


def build(root: Path) -> Built:
    """Build the book in a folder as `make book` does: a warning fails it."""
    command = [sys.executable, "-c", _CALL, "build", ".", "--all", "-W", "-n", "--keep-going"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return Built(site=root / "_build/html", status=done.returncode, log=done.stdout)


def _page(page: str) -> str:
    title = page.rsplit("/", 1)[-1].replace("_", " ").capitalize()
    return (
        f"# {title}\n\nOf the runtime runs {{glue:text}}`{_QUOTED}:d` were identical "
        "{cite}`kwon2023`; the ratio $\\frac{e_v}{e_b}$ stays near one.\n\n"
        "$$\n\\rho = \\operatorname{median}_t \\frac{e_v(t)}{e_b(t)}\n$$\n"
        if "/chapter/" in page
        else f"# {title}\n\nA page.\n"
    )


def _charts_by_page() -> dict[str, list[Any]]:
    grown, specs = sections.fingerprints()
    kept = sections.preservation()
    return {
        "01_fingerprints": [charts.cache_growth(grown, specs=specs)],
        "02_preservation": [
            charts.boundary(kept),
            charts.margins(kept),
            charts.convergence(kept),
            charts.rounding_ratios(kept),
        ],
        "03_fallbacks": [charts.fallback_matrix(sections.fallbacks())],
        "04_admission": [charts.admission_matrix(sections.admission())],
    }


_QUOTED = "../run/02_preservation.ipynb::preservation.runtime_identical"
_TABLES = {
    "01_fingerprints": lambda: charts.fingerprint_table(sections.fingerprints()[0]),
    "02_preservation": lambda: charts.preservation_table(sections.preservation()),
    "03_fallbacks": lambda: charts.fallbacks_table(sections.fallbacks()),
    "04_admission": lambda: charts.admission_table(sections.admission()),
}

_BIB = """@inproceedings{kwon2023,
  author = {Kwon, Woosuk and others},
  title = {Efficient Memory Management for Large Language Model Serving with {PagedAttention}},
  booktitle = {SOSP},
  year = {2023}
}
"""
