"""Build the site from what is staged: call Jupyter Book, and say what it warned of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from labkit.book import rebuilding
from labkit.book.syncing import fill_folder
from labkit.errors import RunError
from labkit.files import find_root, shown, write_atomically

SITE = "_build/html"
FIRST_PAGE = "book/intro.html"
# Jupyter Book's own names no icon, so that a browser asks the host for one that is not there;
# a file named here would be asked for and dropped again, as the page is left at once.
_POINTER = f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Architecture or runtime?</title>
<link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0; url={FIRST_PAGE}">
</head>
<body><p><a href="{FIRST_PAGE}">To the first page</a></p></body>
</html>
"""
_LOG_LINES = 30
# The package has no __main__, and a script on PATH may belong to another environment.
_CALL = "from jupyter_book.cli.main import main; main()"


def build_book(*, root: Path | None = None) -> Path:
    """Build the site, or of a site that is there what has changed; a warning fails it.

    Returns:
        The site's first page.

    Raises:
        RunError: If the build fails, with its warnings and the end of its log, or if the site
            has to be emptied first and a link leads out of the book.
    """
    top = root or find_root()
    site, digest = top / SITE, rebuilding.digest_behind(top)
    anew = not rebuilding.is_current(site, digest)
    # Until this build has ended well the next one starts from nothing: it has to warn again.
    rebuilding.unmark(site)
    if anew:
        _empty(site, top=top)
    rebuilding.age_pages(site)
    # Sphinx warns, and so fails, where a file of ours has changed since the site was built last.
    for path in (top / "book/_static").glob("*"):
        (site / "_static" / path.name).unlink(missing_ok=True)
    flags = ["-W", "-n", "--keep-going", *(["--all"] if anew else [])]
    command = [sys.executable, "-c", _CALL, "build", ".", *flags]
    done = subprocess.run(
        command, cwd=top, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    page = site / "index.html"
    if done.returncode or not page.is_file():
        raise RunError(
            f"The book must build without a warning; the build ended with "
            f"status={done.returncode}.\n{_worst_lines(done.stdout)}\n"
            "Mend what it names and call `labkit book` again."
        )
    write_atomically(page, _POINTER)
    rebuilding.mark_built(site, digest)
    return page


def _empty(site: Path, *, top: Path) -> None:
    """Empty the site, as a build leaves the pages that the book has no more."""
    if site.resolve() != top.resolve() / SITE:
        raise RunError(
            f"The site must lie in the book's own folder; got site={shown(site)}, which leads to "
            f"{site.resolve()}. Remove the link and call `labkit book` again."
        )
    fill_folder(site, {})


def _worst_lines(log: str) -> str:
    """Return a build's warnings and errors, then the end of its log."""
    lines = log.splitlines()
    named = [line for line in lines if "WARNING" in line or "ERROR" in line]
    return "\n".join([*named, "The log ends:", *lines[-_LOG_LINES:]])
