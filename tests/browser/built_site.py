"""The built site that the browser tests read, and its pages."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Another built site to check than the checkout's own, as `make test` has.
SITE = Path(os.environ.get("LABKIT_SITE", ROOT / "_build/html"))


def pages() -> list[str]:
    """Name every page of the built site, for a test each."""
    found = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    return [page for page in found if not page.startswith("_static/")]
