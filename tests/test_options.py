"""Which option is which: the matrix is made from the registry and the results on file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
import sections

from labkit.backends.transformers import TransformersBackend
from labkit.errors import LabError
from labkit.figures import options, rooms
from labkit.figures._capabilities import NOT_APPLICABLE, NOT_TESTED, columns, registered
from labkit.files import shown
from labkit.knobs import KNOBS, Knob, knob, parse_option
from labkit.origins import RUN, stored_files
from labkit.results import empty_results


def results(**row: Any) -> dict[str, Any]:
    """Make results of a model with one row of the preservation section, besides those made up."""
    section = sections.preservation()
    section["rows"] = [{**section["rows"][0], "option": "static_cache", **row}]
    return {**empty_results(), "run": {"model": {"name": "mine"}}, "preservation": section}


def words(results: dict[str, Any], name: str) -> list[tuple[str, int]]:
    """Return what the column of the run says of an option."""
    return columns(results)[0].words_for(KNOBS[name])


def test_every_option_of_the_lab_is_a_row() -> None:
    """The matrix has one row for each registered option, with its kind."""
    html = options.render(results())
    matrix = html.split("</table>")[0]
    rows = re.findall(r'<th scope="row"><code>(\w+)</code></th><td>(\w+)</td>', matrix)

    assert rows == [(knob.name, knob.kind) for knob in registered()]
    assert len(rows) == len([k for k in KNOBS.values() if k.apply.__module__.startswith("labkit.")])


def test_a_new_option_appears_as_not_tested() -> None:
    """An option that is registered now is a row at once, and nobody has tested it."""

    def brand_new(backend: TransformersBackend) -> Iterator[TransformersBackend]:
        """Do nothing."""
        yield backend

    brand_new.__module__ = "labkit.knobs.brand_new"
    made: Knob = knob(kind="runtime", label="brand new")(brand_new)
    try:
        assert made in registered()
        assert words(results(), "brand_new") == [(NOT_TESTED, 0)]
    finally:
        del KNOBS["brand_new"]


@pytest.mark.parametrize("verdict", ["preserving", "different artefact", "not applicable"])
def test_a_cell_has_the_verdict_of_the_run(verdict: str) -> None:
    """What the run found of an option stands in its cell, and nothing else."""
    assert words(results(verdict=verdict), "static_cache") == [(verdict, 1)]
    assert words(results(verdict=verdict), "padded_batch") == [(NOT_TESTED, 0)]


def test_an_option_of_another_stack_is_not_applicable() -> None:
    """An option of llama.cpp has nothing to be asked of a run on transformers."""
    assert words(results(), "llama_cache") == [(NOT_APPLICABLE, 0)]


def test_a_run_on_llamacpp_is_taken_for_one() -> None:
    """Where a row is an option of llama.cpp, those of transformers are not applicable."""
    run = results(option="llama_cache:type=q8_0", verdict="different artefact")

    assert words(run, "llama_cache") == [("different artefact", 1)]
    assert words(run, "eager_attention") == [(NOT_APPLICABLE, 0)]


def test_the_architectures_of_the_benchmark_are_columns() -> None:
    """Each subject of the stored benchmark has a column with verdicts of its own."""
    from labkit.figures._benchmark import stored_benchmark

    subjects = stored_benchmark()["summary"]["subjects"]
    found = {column.model: column for column in columns(results()) if "verdicts" in column.source}

    assert list(found) == subjects
    assert all(column.of(KNOBS["padded_batch"]) for column in found.values())


def test_the_findings_behind_are_as_many_as_the_cells_count() -> None:
    """The table behind the matrix has a row for each verdict that a cell counts."""
    html = options.render(results())
    matrix, behind = html.split('<details class="labkit-table">')
    counted = re.findall(r'<span data-verdict="[\w ]+">([\w ]+?)(?: ×(\d+))?</span>', matrix)
    found = [int(n or 1) for word, n in counted if word not in (NOT_TESTED, NOT_APPLICABLE)]

    measured = behind.count("<tr><td>") - behind.count(f"<td>{NOT_APPLICABLE}</td>")

    assert measured == sum(found)


def test_the_line_below_names_every_file_that_is_shown() -> None:
    """Each column from a stored file has that file among the origins of the matrix."""
    named = [shown(stored_files()[key].path) for key in options.ORIGINS if key != RUN]
    stored = {column.source for column in columns(results()) if column.source.startswith("data/")}

    assert stored
    assert all(any(path.startswith(f"{source}/") for path in named) for source in stored)


def test_a_run_without_the_section_has_no_column() -> None:
    """Without a preservation section the stored measurements are shown alone."""
    found = columns(empty_results())

    assert "this run" not in [column.source for column in found]
    assert "Matrix of" in unescape(options.render(empty_results()))


def test_findings_name_options_that_can_be_read() -> None:
    """Each finding of the stored files is spelled so that the command line can read it."""
    spelled = {f.option for column in columns(results()) for f in column.findings}

    for option in spelled:
        assert parse_option(option).knob.name in KNOBS


CONTRACT = """
[[tool.importlinter.contracts]]
type = "layers"
layers = ["cli", "charts : errors", "a | b"]
[[tool.importlinter.contracts]]
type = "forbidden"
source_modules = ["labkit.errors"]
"""


def test_the_contract_is_read_floor_by_floor() -> None:
    """Rooms on one floor may be divided by a colon or a bar."""
    floors, plain = rooms.read_contract(CONTRACT)

    assert floors == [["cli"], ["charts", "errors"], ["a", "b"]]
    assert plain == {"errors"}


def test_every_room_is_drawn_with_what_it_says_of_itself() -> None:
    """The list has each room of the contract once, the top first, with a sentence."""
    html = rooms.render({})
    drawn = re.findall(r"<li data-plain=\"\w+\"><code>(\w+)</code> ([^<]+)", html)

    assert drawn[0] == ("cli", rooms.purpose_of("cli") + " ")
    assert drawn[-1][0] == "errors"
    assert all(text.strip() for _, text in drawn)
    assert len({name for name, _ in drawn}) == len(drawn)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        pytest.param(lambda: rooms.read_contract(""), "a contract of type 'layers'", id="contract"),
        pytest.param(lambda: rooms.purpose_of("attic"), "got 'attic'", id="room"),
    ],
)
def test_a_contract_or_room_that_is_not_there_is_refused(call: Any, said: str) -> None:
    """A build without the contract, or with a room that says nothing, stops by name."""
    with pytest.raises(LabError, match=said):
        call()
