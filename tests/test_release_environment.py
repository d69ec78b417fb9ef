"""An environment a release: made once, whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import planted_release
import pytest

from labkit.errors import ReleaseError
from labkit.experiments import _release_environment
from labkit.experiments._release_environment import (
    explain_pip,
    make_environment,
)


@pytest.mark.parametrize("release", ["latest", "5.17", "5.17.0 --pre", "-r x", "5.17.0\n", ""])
def test_what_is_no_release_never_reaches_pip(release: str) -> None:
    """Anything but three numbers is refused before a command line is built from it."""
    with pytest.raises(ReleaseError, match="A release must be three numbers with dots"):
        make_environment(release, install=_must_not_run)


def _must_not_run(release: str, python: Path) -> None:
    pytest.fail(f"installed {release}")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param(
            "ERROR: Could not find a version that satisfies the requirement transformers==5.17.9 "
            "(from versions: 5.16.1, 5.17.0, 5.18.0)\n"
            "ERROR: No matching distribution found for transformers==5.17.9",
            "A release must be one that was published; got release='5.17.9'. "
            "Near ones: 5.17.0, 5.18.0, 5.16.1.",
            id="unknown",
        ),
        pytest.param(
            "WARNING: Retrying (Retry(total=1)) after connection broken\n"
            "ERROR: Could not find a version that satisfies the requirement transformers==5.17.9 "
            "(from versions: none)",
            "Installing a release needs a package index; got none for transformers==5.17.9. "
            "Nothing was kept. Check the network and call the same command again; releases that "
            "were installed before need none.",
            id="no-network",
        ),
        pytest.param(
            "ERROR: Could not install packages: [Errno 28] No space left on device",
            "The disk must have room for transformers==5.17.9; it is full. "
            "Free some space and try again.",
            id="full-disk",
        ),
        pytest.param(
            "ERROR: No matching distribution found for tokenizers<0.20,>=0.19",
            "transformers==5.17.9 must install into a Python "
            f"{sys.version_info.major}.{sys.version_info.minor} environment from wheels alone; "
            "pip said 'ERROR: No matching distribution found for tokenizers<0.20,>=0.19'. "
            "Nothing was kept. Leave this release out, or use another Python.",
            id="no-wheel",
        ),
    ],
)
def test_a_failed_install_says_why_and_what_to_do(said: str, words: str) -> None:
    """What pip said becomes one sentence with a remedy."""
    assert explain_pip(said, release="5.17.9") == words


def test_a_failed_install_leaves_nothing(release_cache: Path) -> None:
    """After a failure the release_cache holds no environment, and the next call makes one."""

    def fails(release: str, python: Path) -> None:
        (python.parent / "half").touch()
        raise ReleaseError("no network")

    with pytest.raises(ReleaseError):
        make_environment(planted_release.RELEASE, install=fails)

    assert list((release_cache / "releases").iterdir()) == []
    assert planted_release.planted().python.exists()


def test_an_environment_is_made_once(release_cache: Path) -> None:
    """The second call installs nothing, and what a killed process left is swept away."""
    made = planted_release.planted()
    left = release_cache / "releases" / ".making-by-a-killed-process"
    left.mkdir()
    os.utime(left, (0, 0))
    again = make_environment(planted_release.RELEASE, install=_must_not_run)
    planted_release.planted("0.0.3")

    assert again == made
    assert not left.exists()


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where the cache's folder should be is one message, not a traceback."""
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        Exception, match="must stand in a folder, and a file is in its way"
    ) as refused:
        planted_release.planted()

    assert type(refused.value).__name__ == "RunError"


def test_releases_stand_from_old_to_new() -> None:
    """4.9 comes before 4.10, and both before 5."""
    given_order = ["5.0.0", "4.10.0", "4.9.0"]

    assert sorted(given_order, key=_release_environment.release_order) == given_order[::-1]
