"""The book's prose types no number that a run should give, and quotes the source rightly."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, read_cases

PAGES = [ROOT / "book/intro.md", *sorted((ROOT / "book/chapter").glob("*.md"))]
ALLOWED = read_cases("book_typed_numbers.json")
ADMISSION_CASES = ROOT / "data/admission/cases.json"
REFERENCE = ROOT / "data/reference/source_figures.json"
WORDS = dict(
    zip(["two", "three", "four", "five", "six", "thirteen"], [*range(2, 7), 13], strict=True)
)

# What is no prose: blocks of code and formulas, roles, code, formulas in a line, targets of links.
_BLOCKS = re.compile(r"^```(?!\{glossary\}).*?^```$|^\$\$.*?^\$\$$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"\{[a-z:]+\}`[^`]*`|`[^`]*`|\$[^$\n]+\$|\]\([^)]*\)")
# What looks measured: a share of a count, a percentage, a decimal, thousands, a count of trials.
_MEASURED = re.compile(
    r"(?<![\w.,-])(?:"
    r"\d+ of \d+"
    r"|\d+(?:\.\d+)? ?%"
    r"|\d+(?:\.\d+)+"
    r"|\d{1,3}(?:,\d{3})+"
    r"|(?i:\d+|ten|eleven|twelve|thirteen) (?:passages|prompts|requests|probes|runs|outputs|cases)"
    r")(?![\w])"
)


def prose_of(text: str) -> str:
    """Return a page's prose on one line, with a gap where something else stood."""
    return " ".join(_INLINE.sub(" … ", _BLOCKS.sub(" ", text)).split())


def typed_numbers(text: str) -> set[str]:
    """Return the numbers of a page's prose that look measured."""
    return set(_MEASURED.findall(prose_of(text)))


def figures() -> dict[str, float]:
    """Return the source's figures by key."""
    stored = json.loads(REFERENCE.read_text(encoding="utf-8"))["figures"]
    return {figure["key"]: figure["value"] for figure in stored}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_types_no_measured_number(page: Path) -> None:
    """Each typed number that looks measured is on the list, with a reason; the rest is quoted."""
    allowed = {case["number"] for case in ALLOWED if case["page"] == page.stem}

    assert typed_numbers(page.read_text(encoding="utf-8")) == allowed


def test_the_list_names_pages_that_exist() -> None:
    """No entry of the list is for a page that was renamed or removed."""
    assert {case["page"] for case in ALLOWED} <= {page.stem for page in PAGES}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("In 79 of 84 runs.", {"79 of 84"}, id="share of a count"),
        pytest.param("A share of 4.7 % or 25%.", {"4.7 %", "25%"}, id="percentages"),
        pytest.param("Its ratio was\n1.02.", {"1.02"}, id="decimal at a sentence's end"),
        pytest.param("It has 32,768 bytes, or 12.", {"32,768"}, id="thousands"),
        pytest.param("Of the twelve\nrequests", {"twelve requests"}, id="words over a line"),
        pytest.param("Llama-3.2-1B, 16-bit, 8 bits, exercise 6", set(), id="names and widths"),
        pytest.param("{glue:text}`a.ipynb::b.c:.1%` of `0.5`", set(), id="quoted by glue"),
        pytest.param('```json\n{"a": 0.5}\n```\n$$\nr = 1.5\n$$', set(), id="blocks"),
    ],
)
def test_a_typed_number_is_found(text: str, found: set[str]) -> None:
    """Numbers in prose are found, those in names, code, formulas and glue are not."""
    assert typed_numbers(text) == found


def test_the_introduction_quotes_the_sources_counts() -> None:
    """The introduction's counts of the source are those of the reference file."""
    source = figures()
    counts = [
        source[f"preservation.{kind}_{what}"]
        for kind in ("runtime", "model")
        for what in ("identical", "runs")
    ]
    (quoted,) = re.findall(
        r"the source chapter measured (\d+) of (\d+) and (\d+) of (\d+)",
        prose_of((ROOT / "book/intro.md").read_text(encoding="utf-8")),
    )

    assert [int(number) for number in quoted] == counts


def test_the_fallbacks_page_quotes_the_sources_counts() -> None:
    """The counts of refusals, warnings and silences are the source's, and add up."""
    source = figures()
    kinds = [source[f"fallbacks.{kind}"] for kind in ("refused", "warned", "silent")]
    (quoted,) = re.findall(
        r"over (\w+) probes, (\w+) refusals, (\w+) warnings and (\w+) silences, "
        r"(\w+) of them substitutions",
        prose_of((ROOT / "book/chapter/when_the_stack_cannot.md").read_text(encoding="utf-8")),
    )

    assert [WORDS[word] for word in quoted] == [sum(kinds), *kinds, source["fallbacks.substituted"]]


def test_the_page_on_limits_quotes_the_sources_margins() -> None:
    """The shares of small margins and the median are the source's."""
    source = figures()
    (quoted,) = re.findall(
        r"at most 0\.1 at ([\d.]+) % of steps and at most 0\.5 at ([\d.]+) % of them; "
        r"its median was (\d+\.\d+)",
        prose_of((ROOT / "book/chapter/what_the_numbers_do_not_show.md").read_text("utf-8")),
    )
    shares = [100 * source[f"preservation.share_under_{m}"] for m in ("0_1", "0_5")]

    assert [float(number) for number in quoted] == pytest.approx(
        [*shares, source["preservation.median_margin"]]
    )


def test_the_admission_cases_imagine_one_machine() -> None:
    """Every case has typed facts of one CUDA device of capability 7.5, as the pages say."""
    facts = [case["facts"] for case in json.loads(ADMISSION_CASES.read_text(encoding="utf-8"))]

    assert {(f["device_kind"], *f["compute_capability"]) for f in facts} == {("cuda", 7, 5)}
    assert {how for f in facts for how in f["provenance"].values()} == {"typed"}


def test_the_readmes_own_knob_compiles() -> None:
    """The README's example of measuring an option is Python, and short enough to be typed."""
    (code,) = re.findall(r"```py\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    compile(code, "README.md", "exec")

    assert len([line for line in code.splitlines() if line.strip()]) <= 10


@pytest.mark.slow
def test_the_readmes_own_knob_is_measured(tmp_path: Path) -> None:
    """The README's example prints a verdict for the lab's option and for the reader's own."""
    (code,) = re.findall(r"```py\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert [line.count(" | ") for line in done.stdout.splitlines()] == [1, 1], done.stderr
