"""A site that is there is built on: only what changed is read, and nothing stale is left."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from pathlib import Path

import pytest

from labkit import book
from labkit.book import rebuilding
from labkit.book.building import SITE
from labkit.book.syncing import fill_folder
from labkit.errors import RunError

PAGE = "# Second\n\nSee [the first](first.md) and {ref}`a-place`.\n"


def make_book(top: Path) -> Path:
    """Write a book of two pages, of which the second leads to the first."""
    (top / "book/run").mkdir(parents=True)
    (top / "_config.yml").write_text("title: Two\nonly_build_toc_files: true\n")
    (top / "_toc.yml").write_text(
        "format: jb-book\nroot: book/first\nchapters:\n  - file: book/second\n"
    )
    (top / "book/first.md").write_text("# First\n\n(a-place)=\n## A place\n\nText.\n")
    (top / "book/second.md").write_text(PAGE)
    (top / "book/run/about_this_run.md").write_text("# About\n")
    return top


def make_clone(top: Path) -> Path:
    """Write the files of a clone that figures are made from."""
    for name in ("labkit/a.py", "data/b.json", "notebooks/c.ipynb", "pyproject.toml"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("{}")
    return top


def write_pages(top: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the next build write these pages into the site, and leave the others alone."""

    def build(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        for page in ("index", *(f"book/{name}" for name in names)):
            path = top / SITE / f"{page}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page)
        return subprocess.CompletedProcess(command, 0, stdout="")

    monkeypatch.setattr(subprocess, "run", build)


def test_only_what_differs_is_written(tmp_path: Path) -> None:
    """A file with the wanted bytes keeps its time, another gets them, and the rest is gone."""
    fill_folder(tmp_path, {"a/same.md": b"same", "a/old.md": b"old", "b/gone.md": b"", "c": b""})
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "inside.md").write_text("kept")
    before_ns = (tmp_path / "a/same.md").stat().st_mtime_ns
    fill_folder(tmp_path, {"a/same.md": b"same", "a/old.md": b"new", "d.md": b"new"}, keep="kept")
    found = {
        path.relative_to(tmp_path).as_posix(): path.read_text()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }

    assert found == {
        "a/same.md": "same",
        "a/old.md": "new",
        "d.md": "new",
        "kept/inside.md": "kept",
    }
    assert not (tmp_path / "b").exists()
    assert (tmp_path / "a/same.md").stat().st_mtime_ns == before_ns


@pytest.mark.parametrize("fails_in", ["fsync", "replace"])
def test_a_file_that_cannot_be_written_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_in: str
) -> None:
    """A disk that fills up leaves the page before it whole, and no part of the new one."""
    fill_folder(tmp_path, {"page.md": b"old"})

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os if fails_in == "fsync" else Path, fails_in, fail)
    with pytest.raises(RunError, match="the file before it is untouched"):
        fill_folder(tmp_path, {"page.md": b"new"})

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"page.md": b"old"}


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        pytest.param("book/second.md", False, id="page"),
        pytest.param("book/run/about_this_run.md", True, id="run"),
        pytest.param("book/_static/labkit.css", True, id="style"),
        pytest.param("_config.yml", True, id="settings"),
        pytest.param("_toc.yml", True, id="contents"),
        pytest.param("labkit/figures/new.py", True, id="package"),
        pytest.param("data/b.json", True, id="data"),
        pytest.param("notebooks/c.ipynb", True, id="notebook"),
        pytest.param("pyproject.toml", True, id="contract"),
    ],
)
def test_whatever_is_no_page_counts(tmp_path: Path, file: str, counts: bool) -> None:
    """What pages are made from changes the digest, and the text of a page alone does not."""
    make_clone(make_book(tmp_path))
    before = rebuilding.digest_behind(tmp_path, clone=tmp_path)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("another")

    assert (rebuilding.digest_behind(tmp_path, clone=tmp_path) != before) is counts


def test_another_version_of_a_package_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that was upgraded changes the digest."""
    before = rebuilding.digest_behind(tmp_path, clone=tmp_path)
    monkeypatch.setattr(rebuilding, "_installed", lambda: ["sphinx-0.dist-info"])

    assert rebuilding.digest_behind(tmp_path, clone=tmp_path) != before


def test_a_build_that_failed_is_not_built_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first build is whole, the next is not, one after a failure is whole again."""
    make_book(tmp_path)
    whole, statuses = [], iter([0, 0, 1, 0])

    def build(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        whole.append("--all" in command)
        assert not (tmp_path / SITE / rebuilding.MARK).exists()
        (tmp_path / SITE).mkdir(parents=True, exist_ok=True)
        (tmp_path / SITE / "index.html").write_text("")
        return subprocess.CompletedProcess(command, next(statuses), stdout="")

    monkeypatch.setattr(subprocess, "run", build)
    for fails in (False, False, True, False):
        if fails:
            with pytest.raises(RunError):
                book.build_book(root=tmp_path)
        else:
            book.build_book(root=tmp_path)

    assert whole == [True, False, False, True]


def test_a_page_that_was_removed_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that leaves the contents leaves the site, and one that stays is kept for the next."""
    write_pages(make_book(tmp_path), monkeypatch, "first", "second")
    site = book.build_book(root=tmp_path).parent
    (tmp_path / "book/second.md").unlink()
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/first\n")
    write_pages(tmp_path, monkeypatch, "first")
    book.build_book(root=tmp_path)
    write_pages(tmp_path, monkeypatch)
    book.build_book(root=tmp_path)

    assert [path.name for path in (site / "book").iterdir()] == ["first.html"]


@pytest.mark.parametrize("link", ["_build", SITE])
def test_a_site_that_lies_elsewhere_is_not_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    """Where a link leads out of the book, the files there stay and the link is named."""
    top, elsewhere = make_book(tmp_path / "top"), tmp_path / "elsewhere"
    write_pages(top, monkeypatch, "first")
    (elsewhere / "html").mkdir(parents=True)
    for folder in (elsewhere, elsewhere / "html"):
        (folder / "theirs.txt").write_text("theirs")
    (top / link).parent.mkdir(exist_ok=True)
    (top / link).symlink_to(elsewhere)
    with pytest.raises(RunError) as refused:
        book.build_book(root=top)

    assert str(refused.value).startswith(
        f"The site must lie in the book's own folder; got site={top / SITE}, which leads to "
    )
    assert len(list(elsewhere.rglob("theirs.txt"))) == 2


@pytest.mark.slow
def test_a_rebuilt_site_is_not_stale(tmp_path: Path) -> None:
    """A title that changed reaches the other pages, and a place that is gone stops the build."""
    site = book.build_book(root=make_book(tmp_path)).parent
    first = tmp_path / "book/first.md"
    first.write_text(first.read_text().replace("# First", "# Renamed", 1))
    book.build_book(root=tmp_path)
    rebuilt = (site / "book/second.html").read_text()
    rebuilding.unmark(site)
    book.build_book(root=tmp_path)

    assert "Renamed" in rebuilt
    # Sphinx names the digest of a style only where an earlier build has left that file.
    versions = re.compile(r"(?<=\.css)\?v=\w+")
    assert versions.sub("", (site / "book/second.html").read_text()) == versions.sub("", rebuilt)

    first.write_text(first.read_text().replace("(a-place)=\n", ""))
    with pytest.raises(RunError, match=r"second\.md:3: WARNING: .*a-place"):
        book.build_book(root=tmp_path)
