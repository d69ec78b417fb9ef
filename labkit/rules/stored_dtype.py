"""Would a load that names no type keep the one the checkpoint is stored in?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reason import Example, Found, Rule, unknown, warn
from labkit.rules._request import Request
from labkit.rules.context import LLAMA3
from labkit.spec import ModelSpec

_RULE = "dtype.stored"
# What a release that does not keep the stored type computes in, so it is kept in any case.
_LIBRARY_DEFAULT = "float32"
_STORED = LLAMA3 | {"torch_dtype": "bfloat16"}
_NO_TYPE = Request(prompt_tokens=100, max_new_tokens=8)


def _stored(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    if request.dtype is not None or facts.stored_dtype_kept:
        return None
    if spec.dtype is None or spec.dtype == _LIBRARY_DEFAULT:
        return None
    if facts.stored_dtype_kept is None:
        question = f"whether a load that names no dtype keeps the stored {spec.dtype}"
        hint = f"set dtype to {spec.dtype} or to auto, or learn the fact stored_dtype_kept"
        return (unknown(_RULE, "stored_dtype_kept", question, hint=hint),)
    message = (
        f"{spec.name} is stored in {spec.dtype} and no dtype is asked for, so this release "
        f"would compute in {_LIBRARY_DEFAULT}"
    )
    return (warn(_RULE, message, hint=f"set dtype to {spec.dtype} or to auto"),)


STORED = Rule(
    id=_RULE,
    reason="Releases differ in the type of a load that names none, in silence.",
    check=_stored,
    admits=Example(config=_STORED, request=_NO_TYPE, facts=RuntimeFacts(stored_dtype_kept=True)),
    refuses=Example(config=_STORED, request=_NO_TYPE, facts=RuntimeFacts(stored_dtype_kept=False)),
    unknown=Example(config=_STORED, request=_NO_TYPE),
)
