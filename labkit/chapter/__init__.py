"""The chapter: run its notebooks with one profile, resumable, through papermill."""

from __future__ import annotations

from labkit.chapter.executing import check_parameters
from labkit.chapter.notebook_files import normalise
from labkit.chapter.running import ChapterRun, notebook_paths, run_chapter, store_outputs

__all__ = [
    "ChapterRun",
    "check_parameters",
    "normalise",
    "notebook_paths",
    "run_chapter",
    "store_outputs",
]
