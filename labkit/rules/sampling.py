"""Would every sampling option be known, legal, and have its effect?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labkit.rules._facts import RuntimeFacts
from labkit.rules._options import GENERATION_OPTIONS
from labkit.rules._reading import brief, nearest
from labkit.rules._reason import Example, Found, Number, Reason, Rule, reject, unknown, warn
from labkit.rules._request import Request
from labkit.rules.context import GPT2
from labkit.spec import ModelSpec

# Value at which each option asks for nothing. The first group works while sampling only.
_SAMPLING_NEUTRAL = {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "typical_p": 1}
_ALWAYS_NEUTRAL = {"repetition_penalty": 1, "no_repeat_ngram_size": 0, "num_beams": 1}


def _shown(value: object) -> Number:
    return value if isinstance(value, bool | int | float | str) or value is None else brief(value)


def _no_sampling_option(request: Request) -> bool:
    return (
        request.temperature is None
        and request.top_p is None
        and request.top_k is None
        and request.min_p is None
        and request.typical_p is None
    )


def _samples(request: Request, facts: RuntimeFacts) -> bool | None:
    """Return whether the run would sample; None where a missing fact decides it."""
    if request.do_sample is not None:
        return request.do_sample
    defaults = facts.generation_defaults
    return None if defaults is None else defaults.get("do_sample") is True


def _ignored(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if request.do_sample or _no_sampling_option(request):
        return None
    names = [
        name
        for name, neutral in _SAMPLING_NEUTRAL.items()
        if (value := getattr(request, name)) is not None and value != neutral
    ]
    if request.temperature == 0:
        names.remove("temperature")  # the usual spelling of greedy, which is what runs
    if not names or (samples := _samples(request, facts)):
        return None
    subject, pronoun = " and ".join(names), "it" if len(names) == 1 else "them"
    if samples is None:
        question = f"whether the generation config samples, without which {subject} is ignored"
        return (unknown("sampling", "generation_defaults", question),)
    verb = "is" if len(names) == 1 else "are"
    message = f"{subject} {verb} set but do_sample is false, so the library would ignore {pronoun}"
    numbers = {name: _shown(getattr(request, name)) for name in names}
    return (warn("sampling", message, hint="set do_sample to true", **numbers),)


IGNORED = Rule(
    id="sampling",
    reason="Sampling options without sampling are ignored.",
    check=_ignored,
    admits=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, do_sample=True, temperature=0.5),
    ),
    refuses=Example(
        config=GPT2, request=Request(prompt_tokens=10, max_new_tokens=8, temperature=0.5)
    ),
    unknown=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, do_sample=None, temperature=0.5),
    ),
)


@dataclass(frozen=True, slots=True)
class Interval:
    """Legal values of an option: from `low` (itself excluded if `open_low`) to `high`."""

    low: float
    high: float | None = None
    open_low: bool = False

    def __contains__(self, value: object) -> bool:
        """Return whether a number is legal; a NaN never is."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        above = value > self.low if self.open_low else value >= self.low
        below = value < float("inf") if self.high is None else value <= self.high
        return above and below

    def __str__(self) -> str:
        """Return the usual notation, a round bracket for an excluded end."""
        end = "inf)" if self.high is None else f"{self.high:g}]"
        return f"{'(' if self.open_low else '['}{self.low:g}, {end}"


RANGES = {
    "temperature": Interval(0, open_low=True),
    "top_p": Interval(0, 1, open_low=True),
    "top_k": Interval(0),
    "min_p": Interval(0, 1),
    "typical_p": Interval(0, 1, open_low=True),
    "top_h": Interval(0, 1, open_low=True),
    "epsilon_cutoff": Interval(0, 1),
    "eta_cutoff": Interval(0, 1),
    "repetition_penalty": Interval(0, open_low=True),
    "no_repeat_ngram_size": Interval(0),
    "num_beams": Interval(1),
    "num_return_sequences": Interval(1),
}


def _out_of_range(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if (
        _no_sampling_option(request)
        and request.repetition_penalty is None
        and request.no_repeat_ngram_size is None
        and request.num_beams is None
        and not request.options
    ):
        return None
    return [
        reject("sampling.range", f"{name} {brief(value)} not in {RANGES[name]}", got=_shown(value))
        for name, value in _option_values(request)
        if value not in RANGES[name]
    ]


def _option_values(request: Request) -> Iterator[tuple[str, object]]:
    for name in RANGES:
        value = getattr(request, name, None)
        greedy = name == "temperature" and value == 0 and not request.do_sample
        if value is not None and not greedy:
            yield name, value
        if name in request.options:
            yield name, request.options[name]


RANGE = Rule(
    id="sampling.range",
    reason="An illegal value switches the option off without an error.",
    check=_out_of_range,
    admits=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, do_sample=True, top_p=1.0),
    ),
    refuses=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, do_sample=True, top_p=1.5),
    ),
)


def _unknown_names(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if not request.options:
        return None
    known = GENERATION_OPTIONS if facts.generation_options is None else facts.generation_options
    return [_unknown_name(name, known) for name in request.options if name not in known]


def _unknown_name(name: str, known: tuple[str, ...]) -> Reason:
    near = nearest(name, known)
    message = f"{name} is not a generation option of this runtime"
    return reject("sampling.unknown", message, hint=f"did you mean {near}?" if near else "")


UNKNOWN_NAMES = Rule(
    id="sampling.unknown",
    reason="A misspelt option inside a generation config is taken in silence.",
    check=_unknown_names,
    admits=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, options={"length_penalty": 1.2}),
    ),
    refuses=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, options={"lenght_penalty": 1.2}),
    ),
)


def _inherited(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    defaults = facts.generation_defaults
    if defaults is not None:
        return _inherited_reasons(request, facts) if defaults else None
    if request.do_sample is False:
        return None
    if request.do_sample is None and not _no_sampling_option(request):
        return None  # the rule `sampling` asks for the same fact
    names = [n for n in ("temperature", "top_p", "top_k") if getattr(request, n) is None]
    if request.do_sample and not names:
        return None
    left = ", ".join(names if request.do_sample else ["do_sample", *names])
    question = f"what the checkpoint's generation config says for {left}"
    return (unknown("sampling.inherited", "generation_defaults", question),)


def _inherited_reasons(request: Request, facts: RuntimeFacts) -> Found:
    neutral = dict(_ALWAYS_NEUTRAL)
    if _samples(request, facts):
        neutral = {"do_sample": 0, **_SAMPLING_NEUTRAL, **neutral}
    defaults = facts.generation_defaults or {}
    found = {
        name: defaults[name]
        for name, nothing in neutral.items()
        if getattr(request, name) is None
        and defaults.get(name) is not None
        and defaults[name] != nothing
    }
    if not found:
        return None
    listed = ", ".join(f"{name}={brief(value)}" for name, value in found.items())
    message = f"{listed} would come from the checkpoint's generation config, not from the request"
    numbers = {name: _shown(value) for name, value in found.items()}
    return (warn("sampling.inherited", message, hint="set them in the request", **numbers),)


INHERITED = Rule(
    id="sampling.inherited",
    reason="A checkpoint's generation config fills in what the request leaves open.",
    check=_inherited,
    admits=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8),
        facts=RuntimeFacts(generation_defaults={"do_sample": True, "temperature": 0.6}),
    ),
    refuses=Example(
        config=GPT2,
        request=Request(prompt_tokens=10, max_new_tokens=8, do_sample=None),
        facts=RuntimeFacts(generation_defaults={"do_sample": True, "temperature": 0.6}),
    ),
    unknown=Example(
        config=GPT2, request=Request(prompt_tokens=10, max_new_tokens=8, do_sample=None)
    ),
)
