"""What the results on file say of every registered option, model by model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from labkit.backends.llamacpp import LlamaCppBackend
from labkit.backends.transformers import TransformersBackend
from labkit.errors import LabError
from labkit.figures._benchmark import stored_benchmark
from labkit.figures._stored import GEMMA, LLAMACPP, stored_section
from labkit.files import data_file, find_root, shown
from labkit.knobs import KNOBS, Knob
from labkit.results import read_results

NOT_APPLICABLE = "not applicable"
NOT_TESTED = "not tested"
BENCHMARK_RULE = "growth"
"""The rule of the benchmark by which the lab decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One verdict on an option.

    Attributes:
        knob: The registered name.
        option: The option as it is spelled, parameters included.
        at: The precision, or what else tells two findings of an option apart.
        verdict: What was found.
    """

    knob: str
    option: str
    at: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A model with everything that was found on it in one place.

    Attributes:
        model: The model's name.
        source: Where the findings are from, in a word or two.
        stack: The backend that was asked.
        findings: What was found.
    """

    model: str
    source: str
    stack: type
    findings: tuple[Finding, ...]

    def of(self, knob: Knob) -> list[Finding]:
        """Return what was found of a knob."""
        return [finding for finding in self.findings if finding.knob == knob.name]

    def words_for(self, knob: Knob) -> list[tuple[str, int]]:
        """Return each verdict on a knob with how often it was found, or why there is none."""
        verdicts = [finding.verdict for finding in self.of(knob)]
        if verdicts:
            return [(word, verdicts.count(word)) for word in dict.fromkeys(sorted(verdicts))]
        return [(NOT_TESTED if issubclass(self.stack, knob.stack) else NOT_APPLICABLE, 0)]


def registered() -> list[Knob]:
    """Return every option that the lab has, runtime first, by name within a kind."""
    kinds = ("runtime", "model", "control")
    own = (knob for knob in KNOBS.values() if knob.apply.__module__.startswith("labkit."))
    return sorted(own, key=lambda knob: (kinds.index(knob.kind), knob.name))


def columns(results: Mapping[str, Any]) -> list[Column]:
    """Return the run that is shown, published runs of other models, and the stored benchmarks.

    Args:
        results: The results of the run that is shown.
    """
    found = [_column_of_run(results, source="this run")]
    models = {_model_of(results)}
    for path in sorted((find_root() / "results").glob("published-*/results.json")):
        try:
            other = read_results(path)
        except LabError:
            continue  # an old or half-made one of another model; its own page says what is wrong
        if _model_of(other) not in models:
            models.add(_model_of(other))
            found.append(_column_of_run(other, source=path.parent.name))
    for run in (LLAMACPP, GEMMA):
        stored = read_results(data_file(*run))
        section = stored_section(run)
        found.append(
            Column(
                model=_model_of(stored),
                source=shown(data_file(run[0])),
                stack=TransformersBackend,
                findings=tuple(_findings(section["rows"], at=section["baseline"]["dtype"])),
            )
        )
    return [column for column in found if column.findings] + _columns_of_benchmark()


def _model_of(results: Mapping[str, Any]) -> str:
    model = results.get("run", {}).get("model") or {}
    return str(model.get("name") or "model not recorded")


def _column_of_run(results: Mapping[str, Any], *, source: str) -> Column:
    section = results.get("preservation") or {"rows": [], "baseline": {}}
    rows = section["rows"]
    is_llama = any(row.get("option", "").split(":")[0] in _of_llamacpp() for row in rows)
    return Column(
        model=_model_of(results),
        source=source,
        stack=LlamaCppBackend if is_llama else TransformersBackend,
        findings=tuple(_findings(rows, at=str(section["baseline"].get("dtype", "")))),
    )


def _of_llamacpp() -> set[str]:
    return {knob.name for knob in KNOBS.values() if knob.stack is LlamaCppBackend}


def _findings(rows: Iterable[Mapping[str, Any]], *, at: str) -> Iterator[Finding]:
    for row in rows:
        # Runs of before options were spelled out have only the row's own name.
        option = str(row.get("option", row["knob"]))
        yield Finding(
            knob=option.partition(":")[0], option=option, at=at, verdict=str(row["verdict"])
        )


def _columns_of_benchmark() -> list[Column]:
    found = stored_benchmark()
    return [
        Column(
            model=subject,
            source=shown(data_file("verdicts")),
            stack=TransformersBackend,
            findings=tuple(
                Finding(
                    knob=row["case"].partition(":")[0],
                    option=row["case"],
                    at=row["precision"],
                    verdict=row["answers"][BENCHMARK_RULE],
                )
                for row in found["rows"]
                if row["subject"] == subject and row["case"].partition(":")[0] in KNOBS
            ),
        )
        for subject in found["summary"]["subjects"]
    ]
