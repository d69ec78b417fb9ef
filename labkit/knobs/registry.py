"""What a knob is, how one is registered, and how `name:param=value` is read."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

from labkit.backends import Backend
from labkit.errors import KnobError, NotApplicable

Kind = Literal["runtime", "model", "control"]
Params = dict[str, Any]
KINDS: tuple[Kind, ...] = ("runtime", "model", "control")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt as token ids, under a name that stays the same from run to run."""

    name: str
    ids: tuple[int, ...]


Grouping = Callable[..., list[list[Prompt]]]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the preservation table: parameters of a knob, and the kind it is run as.

    Attributes:
        params: Keyword arguments of the knob.
        kind: `runtime`, `model` or `control`; `None` takes the knob's own.
        prompts: `few` runs the profile's small number of prompts, `all` all of them.
        table: The table it stands in: `main`, or one that is asked for by name.
    """

    params: Params = field(default_factory=dict)
    kind: Kind | None = None
    prompts: Literal["all", "few"] = "all"
    table: str = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """A registered option.

    Attributes:
        name: Its name on the command line.
        kind: What the option claims to be: a `runtime` or a `model` change.
        label: A template over the parameters, for tables and figures.
        apply: `(backend, **params) -> context manager` that yields the changed backend.
        rows: The rows it has in the preservation table.
        group: Splits prompts into the batches it runs; `None` runs each alone.
        check: Raises `KnobError` for parameters that make no sense; called before any run.
        expect: What the session must be seen to do, given the prompts it runs together.
        precision: The dtype of its arithmetic, where the option declares one.
    """

    name: str
    kind: Kind
    label: str
    apply: Callable[..., AbstractContextManager[Backend]]
    rows: tuple[Row, ...] = ()
    group: Grouping | None = None
    check: Callable[..., None] | None = None
    expect: Callable[..., Mapping[str, object]] | None = None
    precision: str | None = None

    @property
    def home(self) -> str:
        """The module it was written in, and a digest of that module's source."""
        module = inspect.getmodule(inspect.unwrap(self.apply))
        name = module.__name__ if module else "unknown"
        try:
            source = inspect.getsource(module) if module else ""
        except (OSError, TypeError):  # written at a prompt or in a notebook: no source file
            source = self.apply.__wrapped__.__code__.co_code.hex()  # type: ignore[attr-defined]  # contextmanager wraps it
        return f"{name}:{hashlib.sha256(source.encode()).hexdigest()}"

    @property
    def stack(self) -> type:
        """The backend that it takes, as its first parameter is annotated; any where it is not."""
        signature = inspect.signature(self.apply, eval_str=True)
        annotation = next(iter(signature.parameters.values())).annotation
        unknown = annotation is inspect.Parameter.empty or not isinstance(annotation, type)
        return object if unknown else annotation

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The keyword parameters of the knob, by name."""
        signature = inspect.signature(self.apply, eval_str=True)
        return {n: p for n, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A knob with its parameters: one row of a table.

    Attributes:
        knob: The registered function.
        params: All of its parameters, defaults filled in.
        kind: What it is run as.
        prompts: `all` or `few` of the profile's prompts.
    """

    knob: Knob
    params: Params
    kind: Kind
    prompts: Literal["all", "few"] = "all"

    @property
    def spelled(self) -> str:
        """The option as it is written on the command line."""
        if not self.params:
            return self.knob.name
        return f"{self.knob.name}:" + ",".join(f"{k}={v}" for k, v in self.params.items())

    @property
    def slug(self) -> str:
        """A name of letters, digits and underscores, for keys and files."""
        values = [str(value).replace("-", "minus_") for value in self.params.values()]
        return re.sub(r"[^0-9a-zA-Z]+", "_", "_".join([self.knob.name, *values])).strip("_")

    @property
    def label(self) -> str:
        """The option in words."""
        return self.knob.label.format(**self.params)

    def groups(self, prompts: Sequence[Prompt]) -> list[list[Prompt]]:
        """Split prompts into the batches in which this option runs them."""
        if self.knob.group is None:
            return [[prompt] for prompt in prompts]
        return self.knob.group(prompts, **self.params)

    def applied(self, backend: Backend) -> AbstractContextManager[Backend]:
        """Apply the option to a backend for the length of a `with` block.

        Raises:
            NotApplicable: If it is an option of another stack.
        """
        if not isinstance(backend, self.knob.stack):
            raise NotApplicable(
                f"{self.knob.name} is an option of {self.knob.stack.__name__}; this backend is "
                f"a {type(backend).__name__}."
            )
        return self.knob.apply(backend, **self.params)

    def expected(self, group: Sequence[Prompt]) -> Mapping[str, object]:
        """What a session must be seen to do while the option runs these prompts together."""
        return self.knob.expect(group, **self.params) if self.knob.expect else {}


KNOBS: dict[str, Knob] = {}


def knob(
    *,
    kind: Kind,
    label: str,
    rows: Sequence[Row] = (),
    group: Grouping | None = None,
    check: Callable[..., None] | None = None,
    expect: Callable[..., Mapping[str, object]] | None = None,
    precision: str | None = None,
) -> Callable[[Callable[..., Iterator[Backend]]], Knob]:
    """Register a generator function as a knob; see `Knob` for the arguments.

    The function takes a backend and keyword-only, annotated parameters with defaults, and
    yields the changed backend once. What it changes on a shared model it restores after.

    Raises:
        KnobError: If a knob of that name is registered already.
    """

    def register(function: Callable[..., Iterator[Backend]]) -> Knob:
        name = function.__name__
        made = Knob(
            name=name,
            kind=kind,
            label=label,
            apply=contextlib.contextmanager(function),
            rows=tuple(rows),
            group=group,
            check=check,
            expect=expect,
            precision=precision,
        )
        if name in KNOBS and KNOBS[name].apply.__module__ != function.__module__:
            raise KnobError(f"a knob called {name!r} is registered already; choose another name.")
        KNOBS[name] = made
        return made

    return register


def preservation_table(table: str = "main") -> list[Option]:
    """Return the options of a table, runtime first, then model, then control.

    Raises:
        KnobError: If no row stands in a table of that name.
    """
    rows = [(knob, row) for knob in KNOBS.values() for row in knob.rows]
    options = [_option(knob, row) for knob, row in rows if row.table == table]
    if not options:
        known = ", ".join(sorted({row.table for _, row in rows}))
        raise KnobError(f"no table of options is called {table!r}; known: {known}.")
    return sorted(options, key=lambda option: KINDS.index(option.kind))


def _option(knob: Knob, row: Row) -> Option:
    defaults = {name: p.default for name, p in knob.parameters.items()}
    params = defaults | row.params
    if knob.check is not None:
        knob.check(**params)
    return Option(knob=knob, params=params, kind=row.kind or knob.kind, prompts=row.prompts)


def require_distinct(options: Sequence[Option]) -> None:
    """Refuse two options of one name, whose runs could not be told apart.

    Raises:
        KnobError: Naming them.
    """
    seen: dict[str, Option] = {}
    for option in options:
        if (other := seen.setdefault(option.slug, option)) is not option:
            raise KnobError(
                f"each option must have a name of its own; {other.spelled!r} and "
                f"{option.spelled!r} are both {option.slug!r}. Leave one out, or run them apart."
            )


def parse_option(text: str) -> Option:
    """Read `name`, `name:param=value,…` or `module:function[:param=value,…]`.

    An option that is a row of the preservation table is returned with that row's kind.

    Raises:
        KnobError: If the knob or a parameter is unknown, or a value makes no sense.
    """
    name, _, rest = text.partition(":")
    if name in KNOBS and rest and "=" not in rest:
        first = next(iter(KNOBS[name].parameters), None)
        hint = f"{name}:{first}={rest}" if first else name
        raise KnobError(f"parameters are written name=value; got {text!r}. Try {hint!r}.")
    if rest and "=" not in rest.split(":")[0]:
        function, _, rest = rest.partition(":")
        chosen = _import_knob(name, function)
    else:
        chosen = _known_knob(name)
    row = Row(params=_parse_params(chosen, rest))
    made = _option(chosen, row)
    for option in (_option(chosen, known) for known in chosen.rows):
        if option.params == made.params:
            return option
    return made


def _known_knob(name: str) -> Knob:
    if name in KNOBS:
        return KNOBS[name]
    for option in preservation_table():
        if option.slug == name:
            raise KnobError(f"a knob is spelled {option.spelled!r}; got its row name {name!r}.")
    near = difflib.get_close_matches(name, KNOBS, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise KnobError(f"unknown knob {name!r}. {hint}Known: {', '.join(sorted(KNOBS))}.")


def _import_knob(module: str, function: str) -> Knob:
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, TypeError, ValueError, SyntaxError) as problem:
        raise KnobError(
            f"could not import the knob {module}:{function}: {problem}. A module of your own must "
            "lie in the working folder or on PYTHONPATH."
        ) from problem
    if not isinstance(found, Knob):
        raise KnobError(f"{module}:{function} must be made with @labkit.knobs.knob; it is not.")
    return found


def _parse_params(chosen: Knob, text: str) -> Params:
    params: Params = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if key not in chosen.parameters or not equals:
            known = ", ".join(chosen.parameters) or "none"
            raise KnobError(f"{chosen.name} has no parameter {key!r}; its parameters: {known}.")
        params[key] = _parse_value(chosen.name, chosen.parameters[key], value)
    return params


def _parse_value(name: str, parameter: inspect.Parameter, text: str) -> object:
    kind = parameter.annotation
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text)
    except (ValueError, KeyError):
        raise KnobError(
            f"{name}: {parameter.name} must be of type {kind.__name__}; got {text!r}."
        ) from None
