"""What counts as a number in a text, and when two answers are the same.

The rules, in full: thousands are grouped by commas in threes; a leading `$`, `€` or `£` and a
trailing `%` are dropped, the latter without dividing; a minus counts as a sign unless a number
or a bracket stands before it to subtract from; decimals and `a/b` are exact fractions. Words for
numbers, exponents and units are not read.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"
_REST = r"(?:\.[0-9]+)?(?:/[0-9]+)?"
NUMBER = re.compile(
    # One character comes first, and what stands before it after: a set is what `re` finds fastest.
    r"[-+−–$€£.0-9](?<![\w.].)"
    rf"(?:(?<=[0-9])(?:[0-9]{{0,2}}(?:,[0-9]{{3}})+(?![0-9])|[0-9]*){_REST}"
    r"|(?<=\.)[0-9]+"
    r"|(?:(?<=[$€£])|(?<=[-+−–])(?<![0-9)] .)(?<![)].)[$€£]?)"
    rf"(?:{_WHOLE}{_REST}|\.[0-9]+))"
    r"%?"
)
MAX_DIGITS = 1000
"""A longer run of digits is malformed: Python itself refuses to read very long ones."""

_DROPPED = str.maketrans({"−": "-", "–": "-", "$": "", "€": "", "£": "", ",": "", "%": ""})


def numbers_in(text: str) -> list[str]:
    """Return the numbers of a text as they are written, in order."""
    return NUMBER.findall(text)


@lru_cache(maxsize=65_536)
def as_number(text: str) -> Fraction | None:
    """Return the exact value of a text that is one number, else None.

    None also stands for a number that cannot be had: a fraction over zero, or too many digits.
    """
    whole = text.strip()
    if len(whole) > MAX_DIGITS or not NUMBER.fullmatch(whole):
        return None
    try:
        return Fraction(whole.translate(_DROPPED))
    except ZeroDivisionError:
        return None
    except ValueError:  # a decimal above or below a stroke, such as 1.5/2
        top, _, bottom = whole.translate(_DROPPED).partition("/")
        return Fraction(top) / Fraction(bottom) if Fraction(bottom) else None


def same_answer(found: str, reference: str) -> bool:
    """Say whether two answers are equal: as exact numbers, or else as texts.

    Texts are compared without case, outer spaces and a final full stop.
    """
    if found == reference:
        return True
    left, right = as_number(found), as_number(reference)
    if left is not None and right is not None:
        return left == right
    if (left is None) != (right is None):
        return False
    return _plain(found) == _plain(reference)


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(".").casefold()
