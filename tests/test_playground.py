"""The admission playground: one answer for three texts, and an archive that needs nothing else."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import io
import json
import re
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, Python

from labkit import playground, pyodide, sphinx_figures
from labkit.admission import Request, RuntimeFacts
from labkit.errors import RunError
from labkit.figures import _form

CONFIG = (ROOT / "data/configs/gpt2.json").read_text(encoding="utf-8")
TOO_LONG = json.dumps(
    {"prompt_tokens": 1200, "max_new_tokens": 8, "attention_implementation": "flash_attention_2"}
)
BODIES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
).map(json.dumps)


def test_an_answer_has_every_reason_with_its_numbers() -> None:
    """The page's text is the decision's own: outcome, message, hint and numbers."""
    shown = json.loads(playground.answer(CONFIG, TOO_LONG, "{}", "gpt2"))

    assert shown["outcome"] == shown["decision"]["outcome"] == "reject"
    assert "1208 tokens exceed the 1024 positions of gpt2 (at most 1016" in shown["html"]
    assert "<dt>tokens</dt><dd>1,208</dd>" in shown["html"]
    assert shown["html"].count("<li") == len(shown["decision"]["reasons"])
    assert shown["html"].index('"reject"') < shown["html"].index('"warn"')


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        pytest.param((CONFIG, '{"temprature": 1}', "{}"), "did you mean temperature", id="field"),
        pytest.param((CONFIG, "{", "{}"), "The request must be JSON", id="request"),
        pytest.param((CONFIG, "{}", "[]"), "Runtime facts must be a JSON object", id="facts"),
        pytest.param(("[]", "{}", "{}"), "A config must be a JSON object", id="config"),
        pytest.param((CONFIG, '{"<b>": 1}', "{}"), "&lt;b&gt;", id="markup"),
    ],
)
def test_what_cannot_be_read_is_said_by_name(texts: tuple[str, str, str], says: str) -> None:
    """A text that cannot be read is no decision, and its fault is named, as text."""
    shown = json.loads(playground.answer(*texts))

    assert (shown["outcome"], shown["decision"]) == ("refused", None)
    assert says in shown["html"]


@given(st.text() | BODIES, st.text() | BODIES, st.text() | BODIES)
def test_any_texts_have_an_answer(config: str, request: str, facts: str) -> None:
    """Whatever is typed, the page gets an answer and no markup that was typed."""
    shown = json.loads(playground.answer(config, request, facts))

    assert shown["outcome"] in ("accept", "warn", "reject", "refused")
    assert set(re.findall(r"<(\w+)", shown["html"])) <= set(
        ["ol", "li", "p", "strong", "code", "small", "dl", "div", "dt", "dd"]
    )


def test_the_archive_is_enough(tmp_path: Path, python: Python) -> None:
    """With the archive and the standard library alone, Python gives the same answer."""
    archive = tmp_path / "rules.zip"
    archive.write_bytes(pyodide.pack_rules())
    code = (
        "import sys; sys.path[:] = [sys.argv[1], *(p for p in sys.path if 'site-packages' not in p"
        " and p not in ('', sys.argv[2]))]; from labkit import playground;"
        "assert sys.argv[1] in playground.__file__;"
        "print(playground.answer(*sys.argv[3:]))"
    )
    done = python(code, str(archive), str(ROOT), CONFIG, TOO_LONG, "{}", "gpt2")

    assert done.stdout.strip() == playground.answer(CONFIG, TOO_LONG, "{}", "gpt2"), done.stderr
    assert not {"numpy", "torch"} & {
        name.split("/")[0] for name in zipfile.ZipFile(archive).namelist()
    }


def test_the_archive_is_the_same_for_the_same_rules() -> None:
    """The archive depends on the sources alone, so that a browser may keep it."""
    names = zipfile.ZipFile(io.BytesIO(pyodide.pack_rules())).namelist()

    assert pyodide.pack_rules() == pyodide.pack_rules()
    assert names == sorted(names)
    assert "labkit/rules/context.py" in names


@pytest.mark.parametrize("target", [Request, RuntimeFacts])
def test_every_field_but_objects_can_be_filled_in(target: type) -> None:
    """Each field that holds no object is in the form, with what its docstring says of it."""
    found = {field.name: field for field in _form.fields_of(target)}
    left = {item.name for item in dataclasses.fields(target)} - set(found)
    hints = {item.name: str(item.type) for item in dataclasses.fields(target)}

    assert all("Mapping" in hints[name] for name in left)
    assert all(field.words.endswith(".") for field in found.values())
    assert {field.kind for field in found.values()} >= {"bool", "int", "text", "choice", "texts"}


def plant(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a small archive with Pyodide's file names into a cache, and expect its digest."""
    import tarfile

    monkeypatch.setenv("LABKIT_CACHE", str(cache))
    place = pyodide.archive_place()
    place.parent.mkdir(parents=True)
    with tarfile.open(place, "w:gz") as archive:
        for name in pyodide.RUNTIME_FILES:
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(name)
            archive.addfile(entry, io.BytesIO(name.encode()))
    digest = base64.b64encode(hashlib.sha512(place.read_bytes()).digest()).decode()
    monkeypatch.setattr(pyodide, "SHA512", digest)


def test_the_figure_labels_every_control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each control of the form has a label of its own, and its explanation is there."""
    plant(tmp_path, monkeypatch)
    shown = sphinx_figures.figure_named("playground").render({})
    controls = re.findall(r'<(?:input|select|textarea)[^>]* ?id="([^"]+)"', shown)
    described = re.findall(r'aria-describedby="([^"]+)"', shown)

    assert len(controls) == len(set(controls)) > 60
    assert set(controls) == set(re.findall(r'<label for="([^"]+)"', shown))
    assert set(described) <= set(re.findall(r' id="([^"]+)"', shown))


def test_the_figure_writes_what_its_script_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site gets the rules and the runtime's files, and nothing else of the archive."""
    plant(tmp_path / "cache", monkeypatch)
    sphinx_figures.figure_named("playground").write_files(tmp_path)
    written = {path.name for path in (tmp_path / "pyodide").iterdir()}

    assert written == set(pyodide.RUNTIME_FILES)
    assert zipfile.is_zipfile(tmp_path / "labkit-rules.zip")


def test_a_book_without_the_runtime_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the archive the page names it, and shows the decided requests all the same."""
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path))
    shown = html.unescape(sphinx_figures.figure_named("playground").render({}))

    assert pyodide.REMEDY in shown
    assert "1208 tokens exceed the 1024 positions of gpt2" in shown
    assert "<form" not in shown
    assert "data-script" not in shown


def fake_npm(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program called npm, and nothing else, on PATH."""
    folder.mkdir()
    npm = folder / "npm"
    npm.write_text(f"#!{sys.executable}\n{script}\n", encoding="utf-8")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_another_file_than_the_known_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive with another digest is not kept, and both digests are named."""
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    script = f"open('{pyodide.ARCHIVE}', 'w').write('other')"
    fake_npm(tmp_path / "bin", script, monkeypatch)

    with pytest.raises(RunError, match=f"must have the SHA-512 {re.escape(pyodide.SHA512)}"):
        pyodide.fetch_archive()

    assert pyodide.find_archive() is None
    assert list(pyodide.archive_place().parent.iterdir()) == []


def test_npms_own_word_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where npm brings nothing, its first line is in the message, and what to do."""
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    fake_npm(tmp_path / "bin", "import sys; sys.exit('no route')", monkeypatch)

    with pytest.raises(RunError, match=r"it did not: no route\. Install Node\.js"):
        pyodide.fetch_archive()


def test_without_npm_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without npm is told what to install."""
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(RunError, match="which is not here"):
        pyodide.fetch_archive()


def test_an_archive_in_the_cache_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the right archive in the cache nothing is asked of npm; a damaged one is not taken."""
    plant(tmp_path, monkeypatch)
    monkeypatch.setenv("PATH", "")
    assert pyodide.fetch_archive() == pyodide.archive_place()

    pyodide.archive_place().write_bytes(b"cut off")

    assert pyodide.find_archive() is None
