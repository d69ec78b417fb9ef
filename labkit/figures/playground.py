"""Ask admission in the page: a form, the JSON behind it, and the rules themselves in Python.

The rules run by Pyodide, from the site's own files, once the reader asks for it. Without it, or
from a folder, the page still shows the form and every case as the build decided it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from labkit import pyodide
from labkit.admission import RULES, Request, RuntimeFacts
from labkit.figures._form import form_html
from labkit.files import data_file
from labkit.playground import decide, reasons_html, summarise

ORIGINS = ()
SCRIPT = "labkit-playground.js"
RUNTIME = "pyodide"
RULES_ARCHIVE = "labkit-rules.zip"
FIRST_CASE = "beyond-learned-positions"
_FIRST = {
    Request: (
        "prompt_tokens",
        "max_new_tokens",
        "do_sample",
        "temperature",
        "dtype",
        "batch_size",
        "system_message",
        "attention_implementation",
        "cache_implementation",
    ),
    RuntimeFacts: (
        "device_kind",
        "compute_capability",
        "device_memory_bytes",
        "fast_bfloat16",
        "flash_attention_installed",
        "compile_available",
        "system_role",
    ),
}
_KNOWN = {
    "dtype": ("float32", "float16", "bfloat16"),
    "kv_cache_dtype": ("float32", "float16", "bfloat16"),
    "attention_implementation": ("eager", "sdpa", "flash_attention_2"),
    "cache_implementation": ("dynamic", "static", "quantized"),
    "quantization": ("bitsandbytes_8bit", "bitsandbytes_4bit"),
    "device_kind": ("cpu", "cuda", "mps"),
}


def render(results: Mapping[str, Any]) -> str:
    """Return the playground; it is the same for every run."""
    cases: list[dict[str, Any]] = json.loads(
        data_file("admission", "cases.json").read_text(encoding="utf-8")
    )
    configs = {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted(data_file("configs").glob("*.json"))
    }
    table = _cases_html(cases, configs)
    archive = pyodide.find_archive()
    if archive is None:
        return _absent_html() + table
    first = next(case for case in cases if case["case"] == FIRST_CASE)
    # "</" would end the script block early.
    inert = json.dumps({"configs": configs, "cases": cases}).replace("</", "<\\/")
    parts = "".join(
        form_html(target, legend=legend, first=_FIRST[target], known=_KNOWN)
        + _editor_html(target.__name__, label)
        for target, legend, label in (
            (Request, "The request", "The request as JSON, in either shape"),
            (RuntimeFacts, "What is known of the runtime", "The facts as JSON"),
        )
    )
    return (
        '<div class="labkit-playground" role="group" aria-label="Admission playground" '
        f'data-script="{SCRIPT}" data-version="{_version()}" data-state="waiting">'
        f"{_start_html(archive)}{_choice_html(cases, configs, first)}"
        f'<div class="labkit-playground-pair"><div>{parts}<details><summary>The checkpoint’s '
        f"config</summary>{_editor_html('config', 'config.json')}</details></div>"
        f"{_answer_html(first, configs)}</div>"
        f'<script type="application/json">{inert}</script></div>{table}'
    )


def write_files(static: Path) -> None:
    """Write what the page's script loads into the site's folder of static files."""
    (static / RULES_ARCHIVE).write_bytes(pyodide.pack_rules())
    if archive := pyodide.find_archive():
        pyodide.write_runtime(archive, static / RUNTIME)


def _version() -> str:
    """Return a mark of the rules, so that no browser keeps those of an earlier build."""
    return hashlib.sha256(pyodide.pack_rules()).hexdigest()[:12]


def _absent_html() -> str:
    return (
        f'<p class="labkit-playground" data-state="absent">This book was built without Pyodide '
        f"{pyodide.VERSION}, so nothing can be decided in this page; the requests of the table "
        f"were decided by the build. {escape(pyodide.REMEDY)}</p>"
    )


def _start_html(archive: Path) -> str:
    megabytes = pyodide.runtime_bytes(archive) / 1e6
    return (
        '<p><button type="button" class="labkit-playground-start">Start the rules in this page'
        f"</button> <small>loads Python, {megabytes:.0f} MB, from this site</small></p>"
        '<progress hidden aria-label="Loading Python"></progress>'
        '<p class="labkit-playground-status" role="status">Not started: what stands below was '
        "decided by the build.</p>"
    )


def _choice_html(cases: list[Any], configs: Mapping[str, str], first: Mapping[str, Any]) -> str:
    starts = "".join(
        f'<option value="{number}"{" selected" if case is first else ""}>'
        f"{escape(case['title'])}</option>"
        for number, case in enumerate(cases)
    )
    names = "".join(
        f"<option{' selected' if name == first['spec'] else ''}>{escape(name)}</option>"
        for name in configs
    )
    return (
        '<div class="labkit-form-fields">'
        '<div class="labkit-form-field"><label for="labkit-case">Start from</label>'
        f'<select id="labkit-case" name="case">{starts}</select>'
        "<small>A request of the experiment, with its checkpoint and facts.</small></div>"
        '<div class="labkit-form-field"><label for="labkit-checkpoint">Checkpoint</label>'
        f'<select id="labkit-checkpoint" name="checkpoint">{names}</select>'
        "<small>Whose config the rules read.</small></div></div>"
    )


def _editor_html(part: str, label: str) -> str:
    place = f"labkit-{part.lower()}-json"
    return (
        f'<div class="labkit-form-field"><label for="{place}">{escape(label)}</label>'
        f'<textarea id="{place}" data-text="{part}" rows="8" spellcheck="false" '
        'autocapitalize="off" autocomplete="off"></textarea></div>'
    )


def _answer_html(case: Mapping[str, Any], configs: Mapping[str, str]) -> str:
    decision, request = _decide(case, configs), json.dumps(case["request"])
    return (
        '<section class="labkit-playground-answer" aria-label="The decision">'
        '<p class="labkit-on-paper">On paper nothing can be asked: this is what the build decided '
        f"of one request, “{escape(case['title'])}”, for the checkpoint {escape(case['spec'])}. "
        f"On the site every field can be changed. <code>{escape(request)}</code></p>"
        f'<p class="labkit-playground-summary" role="status" data-outcome="{decision.outcome}">'
        f"{escape(summarise(decision))}</p>"
        f'<div class="labkit-playground-reasons">{reasons_html(decision)}</div>'
        '<details class="labkit-playground-json"><summary>The decision as JSON</summary>'
        f'<pre tabindex="0">{escape(json.dumps(decision.to_json(), indent=1))}</pre></details>'
        "</section>"
    )


def _decide(case: Mapping[str, Any], configs: Mapping[str, str]) -> Any:
    request, facts = json.dumps(case["request"]), json.dumps(case["facts"])
    return decide(configs[case["spec"]], request, facts, case["spec"])


def _cases_html(cases: list[Any], configs: Mapping[str, str]) -> str:
    rows = []
    for case in cases:
        decision = _decide(case, configs)
        said = "<br>".join(escape(str(reason)) for reason in decision.reasons) or "nothing"
        rows.append(
            f'<tr><th scope="row">{escape(case["title"])}</th><td>{escape(case["spec"])}</td>'
            f"<td>{decision.outcome}</td><td>{said}</td></tr>"
        )
    head = "".join(
        f'<th scope="col">{word}</th>'
        for word in ("request", "checkpoint", "decision", f"what the {len(RULES)} rules said")
    )
    return (
        f'<details class="labkit-table"><summary>Table of the {len(cases)} requests to start from, '
        'as the build decided them</summary><div class="labkit-table-box" role="region" '
        f'tabindex="0" aria-label="Decided requests"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )
