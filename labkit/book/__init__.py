"""The book of one run: choose it, stage it, call Jupyter Book."""

from labkit.book.building import build_book
from labkit.book.choosing import choose_run, lacks_of, last_own_run
from labkit.book.staging import copy_source, stage_run

__all__ = [
    "build_book",
    "choose_run",
    "copy_source",
    "lacks_of",
    "last_own_run",
    "stage_run",
]
