"""The book of one run: choose it, stage it, call Jupyter Book."""

from labkit.book.building import FIRST_PAGE, build_book
from labkit.book.choosing import choose_run, lacks_of, last_own_run
from labkit.book.printing import pages_in_order, print_pages
from labkit.book.staging import copy_source, stage_run

__all__ = [
    "FIRST_PAGE",
    "build_book",
    "choose_run",
    "copy_source",
    "lacks_of",
    "last_own_run",
    "pages_in_order",
    "print_pages",
    "stage_run",
]
