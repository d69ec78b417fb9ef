"""Probe, then decide: what the stack did with a request beside what `admit` says beforehand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labkit.admission import Decision, Request, RuntimeFacts, admit
from labkit.errors import ProbeError
from labkit.experiments import fallbacks
from labkit.experiments._section import as_profile
from labkit.files import data_file
from labkit.profiles import Profile
from labkit.progress import Progress, tell
from labkit.results import read_results, resolve_run_dir
from labkit.spec import ModelSpec, fingerprint

ANSWERS = ("admission", "answers.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One probe's request, as admission sees it.

    Attributes:
        probe: The probe's id.
        spec: What the config of the probe's model states.
        request: What the probe asks for.
        rule: The rule that must answer where the stack substitutes something.
        premise: Facts that the probe itself plants, by name.
        learned: Facts that the probe's evidence holds: their names, and where they stand.
        report: Where users reported the behaviour, if the probe comes from a report.
    """

    probe: str
    spec: ModelSpec
    request: Request
    rule: str
    premise: RuntimeFacts
    learned: Mapping[str, str]
    report: str | None


def run(
    profile: str | Profile = "quick",
    run_dir: str | Path | None = None,
    *,
    progress: Progress = tell,
) -> dict[str, Any]:
    """Run every probe, learn the facts, decide every probe's request, and set both side by side.

    Probes that this run has already asked are not asked again; nothing is stored.

    Args:
        profile: Names the model and the device to ask with.
        run_dir: A run's folder whose results may hold the probes' rows.
        progress: Called after each probe.
    """
    settings = as_profile(profile)
    section = _asked_before(run_dir) or fallbacks.run(settings, progress=progress)
    return answer_all([*section["rows"], *section["beyond"]], learn_here(settings.device))


def _asked_before(run_dir: str | Path | None) -> dict[str, Any] | None:
    """Return the probes' section of a run's own folder; the scratch run may be an old one."""
    if not run_dir:
        return None
    folder = resolve_run_dir(run_dir)
    if not (folder / "results.json").is_file():
        return None
    section: dict[str, Any] | None = read_results(folder)["fallbacks"]
    return section if section and "beyond" in section else None


def learn_here(device: str) -> RuntimeFacts:
    """Return the facts that need no tokenizer, learned on this machine."""
    from labkit.facts import learn_facts

    return learn_facts(device=device, compile_here=False).facts


def answer_all(rows: Iterable[Mapping[str, Any]], facts: RuntimeFacts) -> dict[str, Any]:
    """Decide the request of every probe's row.

    Args:
        rows: Rows of the probes, as results.json holds them, or as the table of releases does,
            which leaves out their evidence.
        facts: What is known of the runtime.

    Returns:
        `rows`, one a probe, and a `summary` of them.

    Raises:
        ProbeError: If a probe has no entry in data/admission/answers.json.
    """
    answers = {answer.probe: answer for answer in read_answers()}
    decided = [_row(row, _find(answers, str(row["probe"])), facts) for row in rows]
    substituted = [row for row in decided if row["substituted"]]
    silent = [row for row in substituted if row["outcome"] == "silent"]
    return {
        "rows": decided,
        "summary": {
            "probes": len(decided),
            "substitutions": len(substituted),
            "silent_substitutions": len(silent),
            "unanswered": [row["probe"] for row in substituted if not row["answered"]],
            "refused_but_done": [
                row["probe"] for row in decided if row["did_it"] and row["decision"] == "reject"
            ],
        },
    }


def answer_stack(column: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Decide every question put to another stack, as a column of the table of releases holds it.

    A question of that stack's own has a request in `answers.json` where one can be written; one
    that no request can say has none, and no rule speaks of it. Facts learned of transformers on
    this machine say nothing of that stack, so that none is used.
    """
    answers = {answer.probe: answer for answer in [*read_answers(), *read_own_answers()]}
    rows = [*column["rows"], *column["own"]]
    unsaid = [
        {"probe": row["probe"], "rule": None, "answered": False}
        for row in rows
        if row["probe"] not in answers
    ]
    return [
        *(
            _row(row, answers[row["probe"]], RuntimeFacts())
            for row in rows
            if row["probe"] in answers
        ),
        *unsaid,
    ]


def _find(answers: Mapping[str, Answer], probe: str) -> Answer:
    if probe not in answers:
        raise ProbeError(
            f"Every probe must have the request that admission sees; got probe={probe!r} "
            f"without one. Add it to data/{'/'.join(ANSWERS)}."
        )
    return answers[probe]


def read_answers() -> list[Answer]:
    """Return every probe's request as admission sees it."""
    return _read("answers")


def read_own_answers() -> list[Answer]:
    """Return the requests of questions that only another stack can be asked."""
    return _read("own_answers")


def _read(part: str) -> list[Answer]:
    data = json.loads(data_file(*ANSWERS).read_text(encoding="utf-8"))
    specs = {name: fingerprint(config, name) for name, config in data["specs"].items()}
    return [
        Answer(
            probe=entry["probe"],
            spec=specs[entry["spec"]],
            request=Request.from_json(entry["request"]),
            rule=entry["rule"],
            premise=RuntimeFacts.from_json(entry.get("premise", {})),
            learned=entry.get("learned", {}),
            report=entry.get("report"),
        )
        for entry in data[part]
    ]


def _row(row: Mapping[str, Any], answer: Answer, facts: RuntimeFacts) -> dict[str, Any]:
    decision = admit(answer.spec, answer.request, _known(row, answer, facts))
    return {
        "number": row.get("number"),
        "probe": row["probe"],
        "asked": row.get("asked", answer.probe),
        "outcome": row["outcome"],
        "did_it": row["did_it"],
        "substituted": row["substituted"],
        "decision": decision.outcome,
        "rule": answer.rule,
        "report": answer.report,
        "answered": _answers(decision, answer.rule),
        "reasons": [reason.to_json() for reason in decision.reasons],
    }


def _answers(decision: Decision, rule: str) -> bool:
    """Say whether the rule spoke, and not only to say that a fact is missing."""
    return any(reason.rule == rule and not reason.unknown for reason in decision.reasons)


def _known(row: Mapping[str, Any], answer: Answer, facts: RuntimeFacts) -> RuntimeFacts:
    """Return the machine's facts with what the probe planted and what its evidence shows."""
    measured = {**row.get("evidence", {}).get("measured", {}), "did_it": row["did_it"]}
    shown = {name: measured.get(key) for name, key in answer.learned.items()}
    planted = {
        name: getattr(answer.premise, name)
        for name in RuntimeFacts.__dataclass_fields__
        if name != "provenance" and getattr(answer.premise, name) is not None
    }
    return replace(facts, **{**planted, **{n: v for n, v in shown.items() if v is not None}})
