"""Short questions with exact answers, written by a seeded generator.

Twelve kinds of question, each in as many wordings as there are ways to ask for the answer. A kind
is a cluster: its questions succeed and fail together, and an interval has to know that.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

SEED = 2026
PER_KIND = 4

EXAMPLE = "Tom has 3 pens and finds 2 more. How many pens has he now?"
WORKED = "Tom has 3 pens and finds 2 more, so 3 + 2 = 5."
FORMS = (
    f"Write the answer on a last line after ####. Example: {EXAMPLE}\n{WORKED}\n#### 5",
    "Show your work, then finish with the words 'The answer is' and the number.",
    f"Put the answer in \\boxed{{}}. Example: {EXAMPLE}\n{WORKED} \\boxed{{5}}",
    f"Answer with the number only. Example: {EXAMPLE}\n5",
)
"""The ways in which an answer is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, how it is grouped, and its exact answer.

    Attributes:
        id: Its name, the same from run to run.
        cluster: The kind of question.
        prompt: What the model is asked, without a chat template.
        reference: The answer, as a plain number or fraction.
    """

    id: str
    cluster: str
    prompt: str
    reference: str


Draw = Callable[[random.Random], tuple[str, int | Fraction]]


def _add(draw: random.Random) -> tuple[str, int]:
    a, b = draw.randint(2, 9), draw.randint(2, 9)
    return f"Mia has {a} apples and gets {b} more. How many apples has she now?", a + b


def _subtract(draw: random.Random) -> tuple[str, int]:
    b = draw.randint(2, 6)
    a = draw.randint(b + 2, 12)
    return f"There are {a} birds on a wire and {b} fly away. How many are left?", a - b


def _multiply(draw: random.Random) -> tuple[str, int]:
    a, b = draw.randint(2, 9), draw.randint(2, 6)
    return f"What is {a} times {b}?", a * b


def _add_tens(draw: random.Random) -> tuple[str, int]:
    a, b = draw.randint(11, 49), draw.randint(11, 49)
    return f"What is {a} + {b}?", a + b


def _halve(draw: random.Random) -> tuple[str, int]:
    half = draw.randint(3, 30)
    return f"What is half of {2 * half}?", half


def _next(draw: random.Random) -> tuple[str, int]:
    start, step = draw.randint(1, 9), draw.choice([1, 2, 5, 10])
    shown = ", ".join(str(start + step * i) for i in range(4))
    return f"What number comes next: {shown}?", start + 4 * step


def _price(draw: random.Random) -> tuple[str, int]:
    a, b = draw.randint(5, 20), draw.randint(1, 4)
    return f"A book costs ${a} and a pen costs ${b}. How many dollars do both cost?", a + b


def _thousands(draw: random.Random) -> tuple[str, int]:
    a, b = 1000 * draw.randint(1, 9), 100 * draw.randint(1, 9)
    return f"What is {a:,} + {b}?", a + b


def _fraction(draw: random.Random) -> tuple[str, Fraction]:
    bottom = draw.choice([2, 3, 4, 5, 8])
    top = draw.randint(1, bottom - 1)
    return f"What fraction of {bottom} equal parts are {top} of them?", Fraction(top, bottom)


def _percent(draw: random.Random) -> tuple[str, int]:
    whole, share = 20 * draw.randint(1, 10), draw.choice([10, 50])
    return f"What is {share}% of {whole}?", whole * share // 100


def _larger(draw: random.Random) -> tuple[str, int]:
    a, b = draw.sample(range(10, 100), 2)
    return f"Which number is larger, {a} or {b}?", max(a, b)


def _weeks(draw: random.Random) -> tuple[str, int]:
    weeks = draw.randint(2, 12)
    return f"A week has 7 days. How many days are {weeks} weeks?", 7 * weeks


KINDS: dict[str, Draw] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "add_tens": _add_tens,
    "halve": _halve,
    "next": _next,
    "price": _price,
    "thousands": _thousands,
    "fraction": _fraction,
    "percent": _percent,
    "larger": _larger,
    "weeks": _weeks,
}


def write_questions(*, per_kind: int = PER_KIND, seed: int = SEED) -> list[Question]:
    """Return the questions: each kind in turn, asked for in each way in turn, none twice."""
    questions = []
    for kind, make in KINDS.items():
        draw = random.Random(f"{seed} {kind}")
        seen: set[str] = set()
        while len(seen) < per_kind:
            text, answer = make(draw)
            if text in seen:
                continue
            form = FORMS[len(seen) % len(FORMS)]
            seen.add(text)
            questions.append(
                Question(
                    id=f"{kind}-{len(seen):02d}",
                    cluster=kind,
                    prompt=f"{form}\n\nQuestion: {text}",
                    reference=str(answer),
                )
            )
    return questions
