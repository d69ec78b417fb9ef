"""Admission: every rule, every message, unknown facts, strict reading, and totality."""

from __future__ import annotations

import dataclasses
import itertools
import json
import typing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, read_cases

from labkit.admission import RULES, Decision, Reason, Request, Rule, RuntimeFacts, admit
from labkit.config_reading.types import EXTENDING_ROPE_KINDS
from labkit.errors import RequestError
from labkit.rules import _facts, _request
from labkit.rules._reach import EXTENDING_KINDS
from labkit.rules.attention import GEMMA2
from labkit.rules.context import GPT2, LLAMA3
from labkit.rules.experts import MIXTRAL
from labkit.rules.window import MISTRAL
from labkit.spec import LayerCache, ModelSpec, RopeScaling, SlidingWindow, fingerprint

CONFIGS = {"gpt2": GPT2, "llama": LLAMA3, "mistral": MISTRAL, "gemma2": GEMMA2, "mixtral": MIXTRAL}
TWELVE = ROOT / "data" / "admission" / "cases.json"
LETTER = Request(prompt_tokens=1200, max_new_tokens=8, temperature=0.5)


def gpt2() -> ModelSpec:
    """Return the spec of gpt2."""
    return fingerprint(GPT2, "gpt2")


def named(rules: tuple[Rule, ...]) -> list:
    """Return one parameter a rule."""
    return [pytest.param(rule, id=rule.id) for rule in rules]


# --- the rules' own contract ---------------------------------------------------------------


@pytest.mark.parametrize("rule", named(RULES))
def test_rule_is_silent_on_its_example_that_admits(rule: Rule) -> None:
    """A rule has nothing to say about the example it gives for a request that is fine."""
    example = rule.admits
    found = rule.check(fingerprint(example.config), example.request, example.facts)

    assert list(found or ()) == []


@pytest.mark.parametrize("rule", named(RULES))
def test_rule_speaks_on_its_example_that_refuses(rule: Rule) -> None:
    """A rule warns or rejects on its own example, under its own id, and admit reports it."""
    example = rule.refuses
    spec = fingerprint(example.config)
    found = list(rule.check(spec, example.request, example.facts) or ())

    assert found
    assert {reason.rule for reason in found} == {rule.id}
    assert {reason.outcome for reason in found} <= {"warn", "reject"}
    assert set(map(str, found)) <= set(
        map(str, admit(spec, example.request, example.facts).reasons)
    )


@pytest.mark.parametrize("rule", named(tuple(rule for rule in RULES if rule.unknown)))
def test_rule_says_unknown_where_its_fact_is_missing(rule: Rule) -> None:
    """A rule whose fact nobody has learned warns, names the fact and says unknown."""
    example = rule.unknown
    found = list(rule.check(fingerprint(example.config), example.request, example.facts) or ())
    missing = [reason for reason in found if reason.unknown]

    assert missing
    assert {reason.outcome for reason in missing} == {"warn"}
    assert all(reason.message.startswith("unknown: ") for reason in missing)


def test_rule_ids_are_unique_and_reasons_are_sentences() -> None:
    """No two rules share an id, and each says in a sentence why it exists."""
    ids = [rule.id for rule in RULES]

    assert sorted(set(ids)) == sorted(ids)
    assert all(rule.reason.endswith(".") and rule.reason[0].isupper() for rule in RULES)


def test_a_new_rule_file_needs_no_other_edit(tmp_path: Path, python) -> None:
    """A file dropped beside the others is a rule that admit asks, with nothing else edited."""
    (tmp_path / "extra.py").write_text(
        "from labkit.rules._reason import Example, Rule, reject\n"
        "from labkit.rules._request import Request\n"
        "def check(spec, request, facts):\n"
        "    return (reject('extra', 'no'),) if request.prompt_tokens == 13 else None\n"
        "EXTRA = Rule(id='extra', reason='Thirteen.', check=check,\n"
        "  admits=Example(config={}, request=Request()),\n"
        "  refuses=Example(config={}, request=Request(prompt_tokens=13)))\n",
        encoding="utf-8",
    )
    code = (
        "import sys, types, pkgutil\n"
        "real = pkgutil.iter_modules\n"
        "def both(path=None, prefix=''):\n"
        "    if path is not None and path[0].endswith('rules'):\n"
        "        path.append(sys.argv[1])\n"
        "    return real(path, prefix)\n"
        "pkgutil.iter_modules = both\n"
        "from labkit.admission import Request, RuntimeFacts, admit\n"
        "from labkit.spec import ModelSpec\n"
        "spec = ModelSpec(name='x', max_position=99, cache_plan=())\n"
        "print(admit(spec, Request(prompt_tokens=13, max_new_tokens=1), RuntimeFacts()))\n"
    )
    result = python(code, str(tmp_path), cwd=ROOT)

    assert result.stdout == "reject\n  extra: no\n", result.stderr


# --- messages --------------------------------------------------------------------------------


def spec_of(case: dict) -> ModelSpec:
    """Return the spec of a case: a known config with the case's changes, null removing a key."""
    config = CONFIGS[case["spec"]] | case["config"]
    present = {key: value for key, value in config.items() if value is not None}
    return fingerprint(present, case["spec"])


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case["id"]) for case in read_cases("admission.json")]
)
def test_decision_is_this_text(case: dict) -> None:
    """The decision, every message and what would fit read exactly as the case file says."""
    request = Request.from_json(case["request"])
    facts = RuntimeFacts.from_json(case["facts"])

    assert str(admit(spec_of(case), request, facts)).split("\n  ") == case["decision"]


def test_the_source_example_to_the_letter() -> None:
    """1208 tokens on gpt2 with a lone temperature give these two reasons and no third."""
    decision = admit(gpt2(), LETTER, RuntimeFacts())

    assert not decision.admitted
    assert [str(reason) for reason in decision.reasons] == [
        "context: 1208 tokens exceed the 1024 positions of gpt2",
        "sampling: temperature is set but do_sample is false, so the library would ignore it",
    ]
    assert decision.reasons[0].numbers == {"tokens": 1208, "positions": 1024}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case["case"])
        for case in json.loads(TWELVE.read_text(encoding="utf-8"))
    ],
)
def test_twelve_cases_decide_as_expected(case: dict) -> None:
    """Each of the twelve published cases gets the outcome and the rules it states."""
    config = ROOT / "data" / "configs" / f"{case['spec']}.json"
    spec = fingerprint(json.loads(config.read_text(encoding="utf-8")), case["spec"])
    request, facts = Request.from_json(case["request"]), RuntimeFacts.from_json(case["facts"])
    decision = admit(spec, request, facts)

    assert (decision.outcome, [reason.rule for reason in decision.reasons]) == (
        case["expected"],
        case["expected_rules"],
    ), str(decision)


def test_twelve_cases_answer_all_thirteen_probes() -> None:
    """Every probe is mirrored by a case, and the cases are numbered 1 to 12."""
    cases = json.loads(TWELVE.read_text(encoding="utf-8"))
    probes = [number for case in cases for number in (case["mirrors_probe"], *case["also_mirrors"])]

    assert [case["number"] for case in cases] == list(range(1, 13))
    assert set(probes) == set(range(1, 14))


# --- decisions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        pytest.param([], "accept", id="none"),
        pytest.param(["accept"], "accept", id="accept"),
        pytest.param(["warn", "accept"], "warn", id="warn"),
        pytest.param(["warn", "reject", "accept"], "reject", id="reject"),
    ],
)
def test_outcome_is_the_worst_reason(outcomes: list, expected: str) -> None:
    """A decision is as bad as its worst reason and admits all but a rejection."""
    reasons = tuple(Reason(rule="r", outcome=outcome, message="m") for outcome in outcomes)
    decision = Decision(reasons)

    assert decision.outcome == expected
    assert decision.admitted == (expected != "reject")


def test_decision_as_json_holds_what_json_can() -> None:
    """A number that is not finite is written as text, so that strict readers take it."""
    request = Request(prompt_tokens=10, max_new_tokens=8, do_sample=True, top_p=float("nan"))
    decision = admit(gpt2(), request, RuntimeFacts(generation_defaults={}))

    assert json.loads(json.dumps(decision.to_json(), allow_nan=False)) == {
        "outcome": "reject",
        "admitted": False,
        "reasons": [
            {
                "rule": "sampling.range",
                "outcome": "reject",
                "message": "top_p nan not in (0, 1]",
                "numbers": {"got": "nan"},
                "hint": "",
                "unknown": "",
            }
        ],
    }


# --- reading ---------------------------------------------------------------------------------


def error_of(read, data: object) -> str:
    """Return the text of the refusal."""
    with pytest.raises(RequestError) as caught:
        read(data)
    return str(caught.value)


def test_request_names_every_fault_at_once() -> None:
    """Unknown and ill-typed fields of a request are all named, with near names and values."""
    data = {"prompt_tokens": "12", "temprature": 0.5, "do_sample": 1, "max_new_tokens": None}
    known = ", ".join(field.name for field in dataclasses.fields(Request))

    assert error_of(Request.from_json, data) == (
        "A request must have known, well-typed fields only; got "
        "prompt_tokens='12' (must be an integer or null), "
        "temprature (unknown; did you mean temperature?), "
        f"do_sample=1 (must be true or false or null). Known fields: {known}."
    )


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        pytest.param("batch_size", True, "an integer", id="bool-is-no-int"),
        pytest.param("batch_size", None, "an integer", id="null-not-allowed"),
        pytest.param("batch_size", 2.0, "an integer", id="float-is-no-int"),
        pytest.param("top_p", False, "a number or null", id="bool-is-no-number"),
        pytest.param("top_p", 10**400, "a number or null", id="beyond-floats"),
        pytest.param("padding_side", "middle", "one of left, right or null", id="choice"),
        pytest.param("roles", ["user", 1], "a list of texts", id="list"),
        pytest.param("options", [], "an object", id="object"),
        pytest.param("attention_mask", 0, "true or false", id="bool"),
        pytest.param("dtype", 16, "a text or null", id="text"),
    ],
)
def test_request_refuses_a_value_of_another_kind(field: str, value: object, kind: str) -> None:
    """An ill-typed value is refused by name, with the kind that would be right."""
    text = error_of(Request.from_json, {field: value})

    assert f"got {field}=" in text
    assert f"(must be {kind})" in text


def test_facts_are_read_as_strictly() -> None:
    """Facts with a wrong role, an unknown fact or a wrong provenance are refused by name."""
    data = {"role_treatment": {"tool": "eaten"}, "provenance": {"sytem_role": "typed"}}

    assert error_of(RuntimeFacts.from_json, data) == (
        "Runtime facts must use the known names; got role_treatment.tool='eaten', "
        "provenance.sytem_role (did you mean system_role?). Roles are accepted, folded, dropped, "
        "refused, no_template, default_inserted; provenance is typed or measured."
    )
    assert "compute_capability=[8] (must be a list of two integers or null)" in error_of(
        RuntimeFacts.from_json, {"compute_capability": [8]}
    )
    assert "provenance.system_role='guessed'" in error_of(
        RuntimeFacts.from_json, {"provenance": {"system_role": "guessed"}}
    )


@pytest.mark.parametrize("read", [Request.from_json, RuntimeFacts.from_json, Request.from_openai])
def test_only_objects_are_read(read) -> None:
    """A list in place of an object is refused by its type."""
    assert "must be a JSON object; got list." in error_of(read, [])


def test_facts_list_what_nobody_has_learned() -> None:
    """Unknown facts are listed by name; a false one is known."""
    facts = RuntimeFacts(compile_available=False)

    assert "compile_available" not in facts.unknown()
    assert "system_role" in facts.unknown()


# --- totality --------------------------------------------------------------------------------

texts = """
x eager sdpa flash_attention_2 static dynamic quantized float16 bfloat16 float32 float64 int4
auto cuda cpu mps gptq user system default linear yarn llama3 unknown
none alibi rope
"""
names = st.sampled_from(["", *texts.split()])
counts = st.one_of(st.integers(-3, 300), st.integers(0, 2**70), st.just(10**320))
numbers = st.floats() | st.sampled_from([0.0, 1.0, 2.0, 4.0])
json_values = st.recursive(
    st.none() | st.booleans() | counts | numbers | names, lambda inner: st.lists(inner, max_size=2)
)
option_names = st.sampled_from(["top_p", "num_beams", "length_penalty", "nope", "do_sample"])
rope_keys = st.sampled_from(
    ["rope_type", "type", "factor", "original_max_position_embeddings", "low_freq_factor", "x"]
)
BY_KIND = {
    "bool": st.booleans(),
    "int": counts,
    "float": numbers,
    "str": names,
    "tuple[str, ...]": st.lists(names, max_size=3).map(tuple),
    "tuple[int, int]": st.tuples(st.integers(0, 12), st.integers(0, 9)),
    "Mapping[str, str]": st.dictionaries(names, names, max_size=2),
    "Mapping[str, object]": st.dictionaries(option_names | rope_keys, json_values, max_size=4),
    "PaddingSide": st.sampled_from(typing.get_args(_request.PaddingSide)),
    "Speculation": st.sampled_from(typing.get_args(_request.Speculation)),
    "SystemRole": st.sampled_from(typing.get_args(_facts.SystemRole)),
}


def generated(target: type) -> st.SearchStrategy:
    """Return a strategy of dataclasses with up to eight fields set, each of its kind."""
    kinds = {
        field.name: BY_KIND[str(field.type).removesuffix(" | None")]
        | (st.none() if str(field.type).endswith("None") else st.nothing())
        for field in dataclasses.fields(target)
    }
    chosen = st.lists(st.sampled_from(sorted(kinds)), unique=True, max_size=8)
    given_fields = chosen.flatmap(lambda names: st.fixed_dictionaries({n: kinds[n] for n in names}))
    return given_fields.map(lambda given: target(**given))


maybe_count = st.none() | counts
layers = st.builds(
    LayerCache,
    kind=st.sampled_from(["full", "sliding", "mla", "recurrent", "conv", "none"]),
    kv_heads=maybe_count,
    key_width=maybe_count,
    value_width=maybe_count,
    window=maybe_count,
)
specs = st.builds(
    ModelSpec,
    name=st.just("x"),
    max_position=maybe_count,
    hidden_size=maybe_count,
    num_attention_heads=maybe_count,
    head_dim=maybe_count,
    kv_bytes_per_token=maybe_count,
    num_experts=maybe_count,
    position_kind=st.sampled_from([None, "learned", "rope", "alibi", "none"]),
    sliding_window=st.builds(SlidingWindow, size=maybe_count, enabled=st.booleans()),
    rope_scaling=st.builds(
        RopeScaling,
        kind=st.sampled_from(["none", "unknown", "odd", *sorted(EXTENDING_ROPE_KINDS)]),
        factor=st.none() | numbers,
        original_max_position=maybe_count,
    ),
    attn_logit_softcap=st.none() | numbers,
    dtype=st.none() | names,
    quantization=st.none() | names,
    cache_plan=st.none() | st.lists(layers, max_size=3).map(tuple),
)


# Every model is put together with every request and every set of facts of its example: generating
# them is what takes the time, and deciding is cheap.
asked = {
    "models": st.lists(specs, min_size=1, max_size=4),
    "requests": st.lists(generated(Request), min_size=1, max_size=4),
    "known": st.lists(generated(RuntimeFacts), min_size=1, max_size=4),
}


def decide_all(models: list[ModelSpec], requests: list[Request], known: list[RuntimeFacts]) -> None:
    """Decide each request of each model under all the facts, and hold what every decision keeps."""
    for spec, request, facts in itertools.product(models, requests, known):
        decision = admit(spec, request, facts)
        text = json.dumps(decision.to_json(), allow_nan=False)

        assert {reason.rule for reason in decision.reasons} <= {rule.id for rule in RULES}
        assert json.loads(text)["outcome"] == decision.outcome
        assert admit(spec, request, facts) == decision


@settings(max_examples=80, deadline=None)
@given(**asked)
def test_admit_is_total(
    models: list[ModelSpec], requests: list[Request], known: list[RuntimeFacts]
) -> None:
    """Whatever is asked of whatever model, admit answers, and in terms that JSON can hold."""
    decide_all(models, requests, known)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(**asked)
def test_admit_is_total_at_length(
    models: list[ModelSpec], requests: list[Request], known: list[RuntimeFacts]
) -> None:
    """The same of thousands of models, requests and facts."""
    decide_all(models, requests, known)


@settings(max_examples=300, deadline=None)
@given(prompt=st.integers(1, 2000), new=st.integers(1, 2000), cached=st.integers(0, 500))
def test_context_rejects_exactly_beyond_the_positions(prompt: int, new: int, cached: int) -> None:
    """A request is refused for its length if and only if it passes the last position."""
    request = Request(prompt_tokens=prompt, max_new_tokens=new, cached_tokens=cached)
    rules = {reason.rule for reason in admit(gpt2(), request, RuntimeFacts()).reasons}

    assert ("context" in rules) == (prompt + new + cached > 1024)


@settings(max_examples=300, deadline=None)
@given(request_=generated(Request), facts=generated(RuntimeFacts))
def test_round_trip_through_json(request_: Request, facts: RuntimeFacts) -> None:
    """What is written as JSON is read back as the same request and the same facts."""
    data = dataclasses.asdict(request_)

    assert str(Request.from_json(json.loads(json.dumps(data)))) == str(request_)
    known = dataclasses.asdict(dataclasses.replace(facts, role_treatment=None, provenance={}))
    assert RuntimeFacts.from_json(json.loads(json.dumps(known))).unknown() == (
        dataclasses.replace(facts, role_treatment=None).unknown()
    )


# --- boundaries ------------------------------------------------------------------------------


def test_extending_kinds_are_those_of_the_spec() -> None:
    """Admission and fingerprint agree on which RoPE kinds extend a shorter original."""
    assert EXTENDING_KINDS == EXTENDING_ROPE_KINDS


def test_import_needs_only_the_standard_library(python) -> None:
    """Admission can be imported by a service that has nothing else installed."""
    code = (
        "import sys, labkit.admission\n"
        "own = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(n for n in own - set(sys.stdlib_module_names) if not n.startswith('_')))"
    )
    result = python(code, cwd=ROOT)

    assert result.stdout == "['labkit']\n", result.stderr
