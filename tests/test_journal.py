"""The journal: whatever happens to the file, each whole unit survives and no wrong one appears."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.errors import ResultsError, RunError
from labkit.journal import Journal

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
UNITS = {"eager/1": {"ratio": 1.01}, "static_cache/2": [1, 2.5, None], "día/3": "naïve\nline"}


def fill(path: Path) -> bytes:
    """Write three units and return the file's bytes."""
    journal = Journal(path)
    for unit, value in UNITS.items():
        journal.append(unit, digest="d", value=value)
    return path.read_bytes()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(units=st.dictionaries(st.text(), JSON, max_size=5))
def test_units_read_back_equal(tmp_path: Path, units: dict) -> None:
    """Any JSON value under any name reads back equal in another process' journal."""
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    journal = Journal(path)
    for unit, value in units.items():
        journal.append(unit, digest="d", value=value)

    again = Journal(path)
    assert not again.problems
    assert {unit: again.value(unit, digest="d") for unit in units} == units


def test_a_cut_at_every_byte_keeps_all_earlier_units(tmp_path: Path) -> None:
    """Cut anywhere, the journal keeps every unit whose line is whole and takes new ones."""
    path = tmp_path / "journal.jsonl"
    content = fill(path)
    ends = [place for place, byte in enumerate(content) if byte == ord("\n")]
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        # A line that lacks only its line end is whole.
        complete = [unit for unit, end in zip(UNITS, ends, strict=True) if cut >= end]
        torn = cut not in {0, *ends, *(end + 1 for end in ends)}

        journal = Journal(path)
        assert [unit for unit in UNITS if journal.has(unit, digest="d")] == complete, cut
        assert len(journal.problems) == torn

        journal.append("new", digest="d", value=cut)
        again = Journal(path)
        assert again.value("new", digest="d") == cut
        assert all(again.value(unit, digest="d") == UNITS[unit] for unit in complete)


def test_no_changed_byte_gives_a_wrong_value(tmp_path: Path) -> None:
    """Change any byte: a unit is either as it was or gone, and its line is reported."""
    path = tmp_path / "journal.jsonl"
    content = fill(path)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 0x01
        path.write_bytes(changed)

        journal = Journal(path)
        kept = [unit for unit in UNITS if journal.has(unit, digest="d")]
        assert all(journal.value(unit, digest="d") == UNITS[unit] for unit in kept)
        assert len(kept) == len(journal), "a unit of another name came up"
        assert journal.problems or len(kept) == len(UNITS)


def test_a_bad_line_is_reported_by_its_number(tmp_path: Path) -> None:
    """The report of a corrupt line has the file, the line's number and what follows from it."""
    path = tmp_path / "journal.jsonl"
    lines = fill(path).splitlines(keepends=True)
    path.write_bytes(lines[0] + b"garbage\n" + lines[2])

    (problem,) = Journal(path).problems
    assert problem == "journal.jsonl line 2: torn or not JSON; its unit runs again."


def test_a_unit_of_other_inputs_runs_again(tmp_path: Path) -> None:
    """A unit is found only under the digest of what it was measured from."""
    path = tmp_path / "journal.jsonl"
    fill(path)

    assert not Journal(path).has("eager/1", digest="other")


def test_nan_is_refused_by_its_place(tmp_path: Path) -> None:
    """A NaN never reaches the journal; the message says where it stood."""
    path = tmp_path / "journal.jsonl"

    with pytest.raises(ResultsError, match=r"\$\.ratio = nan"):
        Journal(path).append("a", digest="d", value={"ratio": float("nan")})

    assert not path.exists()


def test_a_full_disk_is_named_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line torn by a full disk is refused by name; earlier and later units stay readable."""
    path = tmp_path / "journal.jsonl"
    fill(path)
    journal = Journal(path)
    write = os.write

    def half(handle: int, content: bytes) -> int:
        if len(content) < 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, content[:30])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(RunError, match="free_bytes"):
            journal.append("torn", digest="d", value="x" * 20)
    journal.append("after", digest="d", value=1)

    again = Journal(path)
    assert [again.has(unit, digest="d") for unit in (*UNITS, "torn", "after")] == [
        True,
        True,
        True,
        False,
        True,
    ]
    assert len(again.problems) == 1


def test_a_unit_is_measured_once(tmp_path: Path) -> None:
    """What the journal holds under a digest is not measured again, in another process neither."""
    path = tmp_path / "journal.jsonl"
    first = Journal(path).once("a", digest="d", measure=lambda: [1, 2])
    again = Journal(path).once("a", digest="d", measure=lambda: [3, 4])
    other = Journal(path).once("a", digest="e", measure=lambda: [3, 4])

    assert (first, again, other) == ([1, 2], [1, 2], [3, 4])
