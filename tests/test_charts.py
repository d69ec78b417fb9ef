"""Charts and tables: what they show, and that equal results give equal charts."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest
import sections
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from labkit import charts
from labkit.charts.rounding import convergence_labels, convergence_points
from labkit.charts.source import NOT_MEASURED
from labkit.charts.style import significant
from labkit.errors import LabError, ResultsError
from labkit.experiments import releases
from labkit.probes import list_probes

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "data/reference/source_figures.json"


def _cache_growth() -> alt.LayerChart:
    section, specs = sections.fingerprints()
    return charts.cache_growth(section, specs=specs)


CHARTS = {
    "cache_growth": _cache_growth,
    "record_differences": lambda: charts.record_differences(sections.records()),
    "capacity_growth": lambda: charts.capacity_growth(sections.capacity_and_cost()),
    "boundary": lambda: charts.boundary(sections.preservation()),
    "margins": lambda: charts.margins(sections.preservation()),
    "convergence": lambda: charts.convergence(sections.preservation()),
    "rounding_ratios": lambda: charts.rounding_ratios(sections.preservation()),
    "fallback_matrix": lambda: charts.fallback_matrix(sections.fallbacks()),
    "release_matrix": lambda: charts.release_matrix(releases.load_matrix()),
    "admission_matrix": lambda: charts.admission_matrix(sections.admission()),
    "verdict_matrix": lambda: charts.verdict_matrix(sections.verdicts()),
    "extractor_spread": lambda: charts.extractor_spread(sections.from_text_to_score()),
    "cap_knee": lambda: charts.cap_knee(sections.from_text_to_score()),
    "transition_matrix": lambda: charts.transition_matrix(sections.from_text_to_score()),
}
every_chart = pytest.mark.parametrize("make", [pytest.param(f, id=n) for n, f in CHARTS.items()])


@pytest.fixture
def ours() -> Iterator[None]:
    """Use our renderer and theme, and put Altair's back."""
    renderer, theme = alt.renderers.active, alt.theme.active
    with pd.option_context("display.max_colwidth", 50, "display.max_columns", 20):
        charts.enable()
        yield
    alt.renderers.enable(renderer)
    alt.theme.enable(theme)


def stored(chart: Any) -> dict[str, Any]:
    """Return what a notebook would store under the chart's MIME type."""
    return charts.mimebundle(chart.to_dict())[charts.MIME]


def rows_in(spec: dict[str, Any], part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that a part of a chart draws; Altair keeps them beside the parts."""
    return spec["datasets"][part.get("data", spec.get("data"))["name"]]


@every_chart
def test_same_results_give_the_same_chart(make: Callable[[], Any], ours: None) -> None:
    """A chart does not change with what was drawn before it: its names are its own."""
    first = json.dumps(stored(make()))
    for other in CHARTS.values():
        other().to_dict()

    assert json.dumps(stored(make())) == first
    assert not re.search(r'"(view|param|layer)_\d+', first)


@every_chart
def test_chart_compiles_for_jupyterlab(make: Callable[[], Any], ours: None) -> None:
    """The oldest Vega-Lite 5 at hand, next to JupyterLab's own, compiles the chart."""
    spec = stored(make())

    assert vl_convert.vegalite_to_vega(spec, vl_version="5.8")["marks"]
    assert spec["$schema"].endswith("/v5.json")


@every_chart
def test_chart_fits_phone_and_theme(make: Callable[[], Any], ours: None) -> None:
    """Legends stand below, and no colour of the page is written into the chart."""
    text = json.dumps(stored(make()))
    orients = re.findall(r'"legend": \{[^}]*"orient": "(\w+)"', text)

    assert set(orients) <= {"bottom"}
    assert text.count('"legend": {') == len(orients)
    assert not re.search(r'"(black|white|#000|#000000|#fff|#ffffff)"', text)
    assert '"background"' not in text


@every_chart
def test_chart_is_described_with_its_numbers(make: Callable[[], Any], ours: None) -> None:
    """The text alternative is a sentence or more, and says numbers."""
    description = stored(make())["description"]

    assert len(description.split()) > 15
    assert re.search(r"\d", description)


def test_chart_moves_with_its_results(ours: None) -> None:
    """One run that turns from identical to diverged changes the chart and its description."""
    section = sections.preservation()
    before = stored(charts.boundary(section))
    run = next(run for run in section["runs"] if run["kind"] == "control")
    run |= {"identical": False, "first_divergence": 3, "margin_at_divergence": 0.5}
    after = stored(charts.boundary(section))

    assert "12 of 12 control runs identical" in before["description"]
    assert "11 of 12 control runs identical" in after["description"]
    assert before["datasets"] != after["datasets"]


def test_zero_change_has_a_place_and_says_zero(ours: None) -> None:
    """A logit change of exactly zero is drawn on the lowest line and keeps its value."""
    spec = stored(charts.boundary(sections.preservation()))
    points = rows_in(spec, spec["vconcat"][0])
    zeros = [point for point in points if point["logit_change"] == 0]

    assert len(zeros) == sections.PROMPTS
    assert {point["shown_change"] for point in zeros} == {0.0001}
    assert all(point["shown_change"] >= 0.0001 for point in points)


def test_extension_is_dashed_and_unread_is_named(ours: None) -> None:
    """Only a line beyond its original length is dashed; a checkpoint without sizes is named."""
    spec = stored(_cache_growth())
    lines = rows_in(spec, spec["layer"][0])
    dashed = {point["checkpoint"] for point in lines if point["stretch"] == "extended"}
    marks = {(m["checkpoint"], m["mark"]) for m in rows_in(spec, spec["layer"][1])}

    assert dashed == {"llama-3.2-1b"}
    assert ("mistral-7b-v0.1", "window") in marks
    assert ("llama-3.2-1b", "original length") in marks
    assert spec["description"].endswith("Not drawn, sizes not stated: unread.")


def test_histogram_counts_every_step(ours: None) -> None:
    """Each step of the baseline is in one bin, those with an exact tie in the first."""
    section = sections.preservation()
    section["baseline"]["margins"][0][:2] = [0.0, 0.0]
    spec = stored(charts.margins(section))
    bins = rows_in(spec, spec["vconcat"][0]["layer"][0])

    assert sum(place["steps"] for place in bins) == sections.PROMPTS * sections.STEPS
    assert bins[0]["from"] == 0.01
    assert bins[0]["steps"] >= 2


def test_probe_that_cannot_be_asked_is_grey_and_not_a_difference(ours: None) -> None:
    """A probe that was not askable says so and is not counted against the source."""
    spec = stored(charts.fallback_matrix(sections.fallbacks()))
    cells = {(cell["probe"][:2], cell["column"]): cell for cell in rows_in(spec, spec["layer"][0])}

    assert cells["11", "this run"]["text"] == "not askable"
    assert cells["11", "this run"]["said"] == "this device has no such unit"
    assert cells["2 ", "this run"]["text"] == "silent, did not"
    assert spec["description"].endswith("Outcomes differ at probe 13.")


@pytest.mark.parametrize(
    ("outcome", "did_it", "shade"),
    [
        pytest.param("refused", False, "refused", id="refused"),
        pytest.param("warned", True, "warned", id="warned"),
        pytest.param("silent", True, "silent, did it", id="honoured"),
        pytest.param("silent", False, "silent, did not", id="substituted"),
        pytest.param("silent", None, "silent", id="not-measured"),
        pytest.param("not_askable", None, "not askable", id="not-askable"),
    ],
)
def test_silence_is_coloured_by_what_was_done(
    outcome: str, did_it: bool | None, shade: str, ours: None
) -> None:
    """Silence that did as asked and silence that did something else have colours of their own."""
    section = sections.fallbacks()
    section["rows"][0] |= {"outcome": outcome, "did_it": did_it}
    spec = stored(charts.fallback_matrix(section))
    cell = rows_in(spec, spec["layer"][0])[0]
    scale = spec["layer"][0]["encoding"]["color"]["scale"]

    assert cell["shade"] == shade
    assert shade in scale["domain"]
    assert len(set(scale["range"])) == len(scale["domain"]) == len(scale["range"])


def test_probes_are_told_apart_in_a_few_letters(ours: None) -> None:
    """The labels of all real probes differ within what a phone shows of them."""
    section = sections.fallbacks()
    names = [probe.id for probe in list_probes("thirteen")]
    for row, name in zip(section["rows"], names, strict=True):
        row |= {"probe": name, "number": None}
    spec = stored(charts.fallback_matrix(section))
    labels = {cell["probe"][3:25] for cell in rows_in(spec, spec["layer"][0])}

    assert len(labels) == 13


def test_a_rule_has_one_mark_a_case(ours: None) -> None:
    """Two reasons of one rule make one mark, with the stricter outcome and both messages."""
    section = sections.admission()
    row = section["rows"][1]
    first = row["reasons"][0] | {"outcome": "warn", "message": "the first"}
    row["reasons"] = [first, first | {"outcome": "reject", "message": "the second"}]
    spec = stored(charts.admission_matrix(section))
    marks = [
        cell
        for cell in rows_in(spec, spec["layer"][0])
        if cell["case"].startswith("2 ") and cell["rule"] == first["rule"]
    ]

    assert [(mark["outcome"], mark["message"]) for mark in marks] == [
        ("reject", "the first; the second")
    ]


def test_headings_of_rules_are_not_cut(ours: None) -> None:
    """The rules' names stand upright above their columns, so that none leaves the frame."""
    axis = stored(charts.admission_matrix(sections.admission()))["layer"][0]["encoding"]["x"][
        "axis"
    ]

    assert axis["labelAngle"] == -90
    assert axis["labelLimit"] >= 180


@pytest.mark.parametrize("name", ["boundary", "margins", "convergence", "rounding_ratios"])
def test_missing_section_is_refused(name: str) -> None:
    """A chart of an experiment that was not run says so by name."""
    with pytest.raises(ResultsError, match=r"Run (that|the preservation) experiment first"):
        getattr(charts, name)({})


def test_empty_section_is_refused_in_full() -> None:
    """The refusal names what is needed, what was found and what to do."""
    with pytest.raises(ResultsError) as refused:
        charts.admission_table({"rows": [], "summary": {}})

    assert str(refused.value) == (
        "a chart or table needs a section with at least one of its 'rows'; "
        "got ['rows', 'summary']. Run that experiment first."
    )


def test_chart_without_description_is_refused() -> None:
    """The renderer shows no chart that has no text alternative."""
    with pytest.raises(LabError) as refused:
        charts.mimebundle({"mark": "bar", "description": " "})

    assert str(refused.value) == (
        "a chart must have a `description`, the text read out in its place; "
        "got description=' '. Pass one to alt.Chart(…, description=…)."
    )


def test_container_width_becomes_a_number_everywhere() -> None:
    """A width that would hang JupyterLab is replaced, in parts of a chart too; ours stay."""
    part = {"width": "container", "layer": [{"width": "container"}]}
    spec = {"description": "Two views.", "vconcat": [part, {"width": 300}]}
    before = copy.deepcopy(spec)
    made = charts.mimebundle(spec)

    assert "container" not in json.dumps(made)
    assert made[charts.MIME]["vconcat"][1]["width"] == 300
    assert made["text/plain"] == "Two views."
    assert spec == before


def test_selections_stand_inside_their_views(ours: None) -> None:
    """A selection belongs to its view, where the Vega-Lite of JupyterLab can use it."""
    spec = stored(charts.convergence(sections.preservation()))
    named = {part.get("name"): part.get("params") for part in spec["layer"]}

    assert "params" not in spec
    assert named["options"] == [
        {"name": "kind", "select": {"type": "point", "fields": ["kind"]}, "bind": "legend"}
    ]


def test_selection_of_the_whole_chart_stays() -> None:
    """A parameter that names no view, such as a slider, stays where it was."""
    params = [{"name": "near", "value": 0.1}]
    made = charts.mimebundle({"description": "A slider.", "params": params, "mark": "bar"})

    assert made[charts.MIME]["params"] == params


def test_enabled_renderer_is_what_a_notebook_stores(ours: None) -> None:
    """With `enable()`, a chart that ends a cell stores our MIME type and its words only."""
    bundle = charts.boundary(sections.preservation())._repr_mimebundle_()

    assert set(bundle) == {charts.MIME, "text/plain"}


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 12))
def test_rounding_is_near_and_settles(value: float, digits: int) -> None:
    """Rounding moves a number by at most half a unit of its last digit, and only once."""
    rounded = significant(value, digits=digits)

    assert significant(rounded, digits=digits) == rounded
    assert math.isclose(rounded, value, rel_tol=10.0 ** (1 - digits), abs_tol=1e-300)


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=20))
def test_labels_of_lines_never_overlap(distances: list[float]) -> None:
    """However the lines end, their labels stand apart and name every option."""
    points = [
        {"option": f"o{place}", "kind": "model", "unit_roundoff": 2.0**-24, "distance": distance}
        for place, distance in enumerate(distances)
    ]
    labels = convergence_labels(points)
    heights = [math.log10(label["distance"]) for label in labels]
    span = max(math.log10(max(distances) / min(distances)), 1)

    assert all(a - b > 0.03 * span for a, b in pairwise(heights))


def test_options_that_begin_alike_are_told_apart() -> None:
    """A long name goes on in a second line, and then its neighbours keep away from both."""
    points = [
        {"option": option, "kind": "runtime", "unit_roundoff": 2.0**-24, "distance": distance}
        for option, distance in (
            ("llama.cpp, plain file, flash True", 1.12),
            ("llama.cpp, plain file, flash False", 1.0),
        )
    ]
    upper, lower = convergence_labels(points)

    assert [upper["text"], lower["text"]] == [
        "llama.cpp, plain file,\nflash True",
        "llama.cpp, plain file,\nflash False",
    ]
    assert math.log10(upper["distance"] / lower["distance"]) == pytest.approx(2 * 0.042, abs=0.01)


def test_a_name_of_one_word_is_not_cut() -> None:
    """A name that has no place to break stays whole, however long it is."""
    option = "linears_int8_per_channel_symmetric"
    points = [{"option": option, "kind": "runtime", "unit_roundoff": 2.0**-24, "distance": 1.0}]

    assert [label["text"] for label in convergence_labels(points)] == [option]


def test_exact_agreement_is_left_off_the_log_axis() -> None:
    """An option without any distance at a precision has no point there, and the rest stay."""
    section = sections.preservation()
    section["lanes"][0]["distance"] = 0.0
    section["lanes"][1]["distance"] = None

    assert len(convergence_points(section)) == len(section["lanes"]) - 2


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_printed_figure_is_the_same_twice(tmp_path: Path, ending: str) -> None:
    """The figure for print is written byte for byte the same from the same results."""
    section = sections.preservation()
    first = charts.save_convergence(section, tmp_path / f"a{ending}").read_bytes()
    second = charts.save_convergence(section, tmp_path / f"b{ending}").read_bytes()

    assert first == second
    assert len(first) > 5000


def test_printed_figure_refuses_another_format(tmp_path: Path) -> None:
    """Another ending than the three is refused before anything is drawn."""
    with pytest.raises(ResultsError, match=r"must end in one of \('.png', '.svg', '.pdf'\)"):
        charts.save_convergence(sections.preservation(), tmp_path / "figure.jpg")


def test_tables_say_what_is_not_known() -> None:
    """A missing value reads as not stated or as a dash, never as None or NaN."""
    tables = [
        charts.fingerprint_table(sections.fingerprints()[0]),
        charts.preservation_table(sections.preservation()),
        charts.fallbacks_table(sections.fallbacks()),
        charts.admission_table(sections.admission()),
    ]
    html = " ".join(table.to_html() for table in tables)

    assert not re.search(r"\b(None|nan|NaN)\b", html)
    assert [len(table) for table in tables] == [7, 13, 13, 12]


def test_a_declared_precision_has_no_ratio() -> None:
    """An option whose arithmetic is declared shows no ratio, and its verdict says why."""
    section = sections.preservation()
    section["rows"][6] |= {"declared": True}
    table = charts.preservation_table(section)

    assert (
        list(table.loc["float32 arithmetic", ["rounding ratio", "ratio in float32"]]) == ["–"] * 2
    )
    assert table.loc["float32 arithmetic", "verdict"] == "preserving (declared)"
    assert table.loc["eager attention", "verdict"] == "preserving"


def test_a_probes_row_stays_low() -> None:
    """What was said, the stand-in and why a probe was not asked share one short cell."""
    section = sections.fallbacks()
    section["rows"][2] |= {"said": "word " * 200, "stand_in": "a template " * 60}
    table = charts.fallbacks_table(section)
    cells = list(table["said, and noted"])

    assert max(map(len, cells)) <= 240
    assert "stand-in: a template" in cells[2]
    assert cells[10] == "not askable here: this device has no such unit"
    assert cells[0] == "–"


def test_no_divergence_is_not_unmeasured() -> None:
    """Where runs were made and none diverged, the side-by-side table says so."""
    section = sections.preservation()
    row = next(row for row in section["rows"] if row["knob"] == "quantised_weights_8")
    row |= {"diverged": 0, "max_margin_at_divergence": None}
    reference = charts.load_reference(REFERENCE)
    what = "largest baseline margin at a divergence with int8 weights"
    table = charts.side_by_side("preservation", section, reference)
    assert table.loc[what, "this run"] == "no divergence"

    row["runs"] = 0
    table = charts.side_by_side("preservation", section, reference)
    assert table.loc[what, "this run"] == NOT_MEASURED


def test_tables_show_every_word(ours: None) -> None:
    """A long reason is shown whole in a notebook."""
    section = sections.admission()
    section["rows"][1]["reasons"][0]["message"] = "because " * 40 + "of this"

    assert "of this" in charts.admission_table(section)._repr_html_()


@pytest.mark.parametrize(
    ("row", "column", "cell"),
    [
        pytest.param("gpt2", "window", "none", id="no-window"),
        pytest.param("mistral-7b-v0.1", "window", "4,096, layers not stated", id="window"),
        pytest.param(
            "llama-3.2-1b",
            "RoPE scaling",
            "llama3 by 32, first trained at 8,192 (extension)",
            id="extension",
        ),
        pytest.param("llama-3.2-1b", "cache, full context", "4.29 GB", id="bytes"),
        pytest.param("unread", "cache per token", "not stated", id="not-stated"),
    ],
)
def test_fingerprint_cells(row: str, column: str, cell: str) -> None:
    """A cell of the fingerprint table reads as a person would say it."""
    assert charts.fingerprint_table(sections.fingerprints()[0]).loc[row, column] == cell


def test_numbers_have_stable_keys() -> None:
    """Summary, baseline and rows each have their key; a float has a text beside it."""
    section = sections.preservation()
    section["rows"][0] |= {"ratio": 1.23456789, "ratio_float32": 41234.0, "growth": 1.5e-7}
    numbers = charts.numbers_of("preservation", section)
    row = "preservation.row.chunked_prefill_64"

    assert numbers["preservation.runtime_runs"] == 84
    assert numbers["preservation.baseline.prompt_tokens"] == 300
    assert numbers[f"{row}.ratio"] == 1.23457
    assert numbers[f"{row}.ratio.text"] == "1.23"
    assert numbers[f"{row}.ratio_float32.text"] == "41,200"
    assert numbers[f"{row}.growth.text"] == "1.5e-7"
    assert numbers[f"{row}.mean_first_divergence_share"] == "none"


def test_a_colon_cannot_break_a_key() -> None:
    """A row's name with a colon keeps to the characters that prose can quote."""
    section = {"rows": [{"knob": "window:size=64", "runs": 1}]}

    assert charts.numbers_of("preservation", section) == {
        "preservation.row.window_size_64.knob": "window:size=64",
        "preservation.row.window_size_64.runs": 1,
    }


def test_two_rows_of_one_name_are_refused() -> None:
    """Prose could not tell two rows of the same name apart."""
    section = {"rows": [{"knob": "a", "runs": 1}, {"knob": "a", "runs": 2}]}

    with pytest.raises(ResultsError, match=r"key='preservation.row.a.knob' twice"):
        charts.numbers_of("preservation", section)


def test_unknown_section_is_refused() -> None:
    """Numbers are asked for under one of the four names."""
    with pytest.raises(ResultsError, match="got 'preservations'"):
        charts.numbers_of("preservations", {})


def test_glue_stores_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number is stored in the notebook under its key, and none is displayed."""
    kept: dict[str, Any] = {}

    def keep(key: str, value: Any, display: bool) -> None:
        kept[key] = (value, display)

    monkeypatch.setattr("myst_nb.glue", keep)
    number = charts.glue_numbers("admission", sections.admission())

    assert number == len(kept)
    assert kept["admission.reject"] == (6, False)
    assert kept["admission.row.case_04.outcome"] == ("reject", False)


def test_reference_figures_name_their_section_once() -> None:
    """Each figure of the source has its own key, a section of ours and words."""
    figures = charts.load_reference(REFERENCE)
    keys = [figure.key for figure in figures]

    assert len(set(keys)) == len(keys)
    assert {key.split(".")[0] for key in keys} == {"preservation", "fallbacks", "admission"}
    assert all(len(figure.what.split()) > 1 for figure in figures)


@pytest.mark.parametrize("run", ["published-cpu", "published-quick"])
def test_every_reference_figure_has_ours(run: str) -> None:
    """In a published run each figure of the source has a number of ours to stand beside it."""
    path = ROOT / "results" / run / "results.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    ours = {
        key
        for name in ("preservation", "fallbacks", "admission")
        for key in charts.numbers_of(name, results[name])
    }
    missing = [
        figure.ours for figure in charts.load_reference(REFERENCE) if figure.ours not in ours
    ]

    assert missing == []


def test_side_by_side_keeps_the_two_apart() -> None:
    """The source's figure and ours stand in columns of their own, a missing one says so."""
    reference = charts.load_reference(REFERENCE)
    table = charts.side_by_side("preservation", sections.preservation(), reference)
    row = table.loc["runs with a runtime option changed"]
    absent = table.loc["runtime divergences at an exact tie"]

    assert list(row) == ["84", "84"]
    assert list(absent) == ["3", NOT_MEASURED]


def test_broken_reference_is_refused(tmp_path: Path) -> None:
    """A reference file with an entry that is none is named."""
    path = tmp_path / "figures.json"
    path.write_text('{"figures": [{"key": "a"}]}', encoding="utf-8")

    with pytest.raises(ResultsError, match=r"figures\.json: .*missing"):
        charts.load_reference(path)
