"""The book's renderer: charts and formulas that need no other host."""

from __future__ import annotations

import html
import json
import re
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import booksite
import pytest
import yaml

from labkit import charts, sphinx_roles, sphinx_site, sphinx_vega
from labkit.errors import LabError, ResultsError

ROOT = Path(__file__).resolve().parent.parent
SPEC = {"description": 'Two bars, "a" < "b".', "height": 120, "mark": "bar"}


def output(mime: str, content: Any) -> SimpleNamespace:
    """Make what myst-nb hands to a renderer."""
    return SimpleNamespace(mime_type=mime, content=content)


def test_chart_becomes_a_named_figure() -> None:
    """The figure's name is the description, escaped, and its space is kept free."""
    (node,) = sphinx_vega.VegaRenderer.handle_mime(None, output(charts.MIME, SPEC), False) or []
    html = node.astext()

    assert 'role="figure" aria-label="Two bars, &quot;a&quot; &lt; &quot;b&quot;."' in html
    assert 'data-state="waiting"' in html
    assert "min-height:120px" in html


def test_chart_data_stays_inert_and_whole() -> None:
    """A text that looks like the end of a script cannot end the block, and is read back whole."""
    spec = SPEC | {"title": "</script><script>alert(1)</script>"}
    html = sphinx_vega.chart_node(json.dumps(spec)).astext()
    block = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.S)

    assert block is not None
    assert json.loads(block[1]) == spec
    assert html.count("<script") == 2  # ours, and the one within the JSON, which is text


def test_chart_without_description_stops_the_build() -> None:
    """The book shows no chart without words."""
    with pytest.raises(ResultsError, match="must have a `description`"):
        sphinx_vega.chart_node({"mark": "bar"})


@pytest.mark.parametrize(
    ("mime", "inline"),
    [
        pytest.param("text/plain", False, id="another-type"),
        pytest.param(sphinx_vega.MIME, True, id="inside-a-sentence"),
    ],
)
def test_other_outputs_are_left_alone(mime: str, inline: bool) -> None:
    """What is not a chart of its own goes on to the other renderers."""
    assert sphinx_vega.VegaRenderer.handle_mime(None, output(mime, SPEC), inline) is None


def test_one_mime_type_for_notebook_and_book() -> None:
    """What the notebooks store is what the book draws."""
    assert sphinx_vega.MIME == charts.MIME


def test_renderer_is_installed() -> None:
    """The installed package tells myst-nb about the renderer."""
    names = [point.value for point in entry_points(group="myst_nb.mime_renderers")]

    assert "labkit.sphinx_vega:VegaRenderer" in names


def test_bundle_leaves_no_names_of_its_own() -> None:
    """The drawing script is wrapped, and asks for nothing when it is only loaded."""
    bundle = sphinx_vega.vega_bundle()

    assert bundle.startswith("(function(){")
    assert bundle.endswith("})();\n")
    assert "window.vegaEmbed=" in bundle.replace(" ", "")


@pytest.mark.parametrize(
    ("latex", "part"),
    [
        pytest.param(r"\frac{e_v}{e_b}", "<mfrac>", id="fraction"),
        pytest.param(r"2^{-24}", "<msup>", id="power"),
        pytest.param(r"\sqrt{\frac{1}{V}\sum_i x_i^2}", "<msqrt>", id="root-of-sum"),
        pytest.param(r"\operatorname{median}_t \rho", "median", id="operator"),
        pytest.param(r"\epsilon \le 2^{-8}", "&#x02264;", id="relation"),
    ],
)
def test_formula_becomes_mathml(latex: str, part: str) -> None:
    """The formulas that the chapter needs turn into MathML."""
    markup = sphinx_site.mathml(latex, display="inline")

    assert markup.startswith("<math")
    assert part in markup


@pytest.mark.parametrize(
    ("latex", "fault"),
    [
        pytest.param(r"\frac{a", "its braces do not match", id="unclosed"),
        pytest.param(r"\nosuchthing x", "it has an unknown command", id="unknown"),
        pytest.param(r"\frac{a}", "a part is missing in mfrac", id="half-a-fraction"),
        pytest.param(r"a &= b", "it has a sign that MathML has not", id="alignment"),
        pytest.param(r"x^", "MissingSuperScriptOrSubscriptError", id="no-power"),
    ],
)
def test_formula_that_cannot_be_read_is_named(latex: str, fault: str) -> None:
    """A formula that readers would see as source stops the build, by its text."""
    with pytest.raises(LabError, match=re.escape(f"got {latex!r}: {fault}")):
        sphinx_site.mathml(latex, display="block")


def test_thebe_is_dropped_and_the_rest_stays() -> None:
    """Only the live-code scripts, one of them without a file name, are taken off a page."""
    inline = SimpleNamespace(filename=None, attributes={"body": 'const THEBE_JS_URL = "x"'})
    named = SimpleNamespace(filename="_static/sphinx-thebe.js", attributes={})
    kept = SimpleNamespace(filename="_static/doctools.js", attributes={"body": None})
    context: dict[str, Any] = {"script_files": [inline, named, kept], "css_files": ["a.css"]}
    sphinx_site._drop_thebe(None, "p", "page.html", context, None)

    assert context == {"script_files": [kept], "css_files": ["a.css"]}


@pytest.mark.parametrize(
    ("written", "read_out"),
    [
        pytest.param("<th></th>", "<td></td>", id="corner-of-pandas"),
        pytest.param('<th class="head"><p></p></th>', '<td class="head"></td>', id="of-docutils"),
        pytest.param("<th>1</th>", "<th>1</th>", id="header-with-a-name"),
        pytest.param("<thead></thead>", "<thead></thead>", id="another-tag"),
        pytest.param(
            '<div class="citation" id="a" role="doc-biblioentry">',
            '<div class="citation" id="a" role="listitem">',
            id="reference",
        ),
    ],
)
def test_roles_that_nothing_reads_out_are_mended(written: str, read_out: str) -> None:
    """An empty header becomes a cell and a reference a list item, and nothing else changes."""
    assert sphinx_roles.mended(f"<p>{written}</p>") == f"<p>{read_out}</p>"


def test_config_executes_nothing_and_loads_ours() -> None:
    """The book only shows stored outputs, by our extensions and our formulas."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    sphinx = config["sphinx"]

    assert config["execute"]["execute_notebooks"] == "off"
    assert sphinx["extra_extensions"] == [
        f"labkit.sphinx_{name}" for name in ("vega", "site", "roles", "run", "figures", "launch")
    ]
    assert sphinx["config"]["html_math_renderer"] == "mathml"
    assert {"notebooks", "results", "tests", "README.md"} <= set(config["exclude_patterns"])


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> booksite.Built:
    """Build the book as its publisher would, who says where the repository is."""
    root = tmp_path_factory.mktemp("published")
    booksite.make_source(root)
    address = {
        "repository": {"url": "https://github.com/an-owner/a-lab", "branch": "main"},
        "launch_buttons": {
            "notebook_interface": "jupyterlab",
            "binderhub_url": "https://mybinder.org",
            "jupyterhub_url": "https://hub.example.org",
        },
    }
    with (root / "_config.yml").open("a", encoding="utf-8") as config:
        config.write("\n" + yaml.safe_dump(address))
    return booksite.build(root)


@pytest.mark.slow
def test_launch_buttons_lead_to_a_notebook_of_the_repository(published: booksite.Built) -> None:
    """Binder and JupyterHub open the notebook that the repository holds, in JupyterLab."""
    page = (published.site / "book/run/02_preservation.html").read_text(encoding="utf-8")
    prose = (published.site / "book/chapter/admission.html").read_text(encoding="utf-8")
    links = [html.unescape(link) for link in re.findall(r'href="(https://[^"]*ipynb[^"]*)"', page)]
    opened = [link for link in links if "blob" not in link and "edit" not in link]

    assert opened == [
        "https://mybinder.org/v2/gh/an-owner/a-lab/main"
        "?urlpath=lab/tree/notebooks/02_preservation.ipynb",
        "https://hub.example.org/hub/user-redirect/git-pull?repo=https%3A//github.com/an-owner/a-lab"
        "&urlpath=lab/tree/a-lab/notebooks/02_preservation.ipynb&branch=main",
    ]
    assert (ROOT / "notebooks/02_preservation.ipynb").is_file()
    assert 'href="../../_sources/book/run/02_preservation.ipynb"' in page, "the run's own, to keep"
    assert "mybinder" not in prose


@pytest.mark.slow
def test_book_builds_without_a_warning(published: booksite.Built) -> None:
    """The configuration builds each page of the contents, with charts, numbers and formulas."""
    built = published
    page = (built.site / "book/run/02_preservation.html").read_text(encoding="utf-8")
    prose = (built.site / "book/chapter/admission.html").read_text(encoding="utf-8")
    bundle = built.site / "_static" / sphinx_vega.BUNDLE

    assert built.status == 0, built.log[-3000:]
    assert page.count('class="labkit-chart"') == 4
    assert page.count('class="labkit-origin"') == 2, "a cell of charts and one of a table"
    assert 'data-bundle="labkit-vega.js"' in page
    assert sphinx_vega.SCRIPT not in prose
    assert "<strong>79</strong>" in prose or ">79<" in prose
    assert "<mfrac>" in prose
    assert bundle.stat().st_size > 500_000
    for text in (page, prose):
        scripts = re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css))', text)
        assert scripts == []
        assert "THEBE" not in text


@pytest.mark.slow
def test_a_warning_fails_the_book(tmp_path: Path) -> None:
    """A page that quotes a number which the run does not have stops the build."""
    booksite.make_source(tmp_path)
    page = tmp_path / "book/chapter/admission.md"
    quote = "{glue:text}`../run/02_preservation.ipynb::preservation.no_such_number:d`"
    page.write_text(f"# Admission\n\nOf them {quote} were identical.\n", encoding="utf-8")
    built = booksite.build(tmp_path)

    assert built.status != 0
    assert "no_such_number" in built.log
