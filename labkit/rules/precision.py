"""Is the computing type known, and one the device is made for?"""

from __future__ import annotations

from labkit.rules._facts import RuntimeFacts
from labkit.rules._reading import nearest
from labkit.rules._reason import Example, Found, Rule, reject, unknown, warn
from labkit.rules._request import Request
from labkit.rules.context import LLAMA3
from labkit.spec import ModelSpec

COMPUTE_BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16}
CACHE_BITS = COMPUTE_BITS | {
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "int8": 8,
    "int4": 4,
    "int2": 2,
}
FIRST_FAST_BFLOAT16 = (8, 0)


def compute_dtype(spec: ModelSpec, request: Request) -> str | None:
    """Return the type the run would compute in; None where nothing states it."""
    asked = request.dtype
    return spec.dtype if asked is None or asked == "auto" else asked


def is_fast(dtype: str, facts: RuntimeFacts) -> bool | None:
    """Return whether the device has a fast path for a 16-bit type; None: not known."""
    if dtype == "float16":
        on_gpu = facts.device_kind is not None and facts.device_kind != "cpu"
        return True if facts.fast_float16 is None and on_gpu else facts.fast_float16
    if facts.fast_bfloat16 is None and facts.compute_capability is not None:
        return facts.compute_capability >= FIRST_FAST_BFLOAT16
    return facts.fast_bfloat16


def _dtype(spec: ModelSpec, request: Request, facts: RuntimeFacts) -> Found:
    dtype = compute_dtype(spec, request)
    if dtype == "float32" or dtype is None:
        return None
    if dtype not in COMPUTE_BITS:
        return _unknown_type(dtype) if request.dtype is not None else None
    if dtype == "float64":
        mps = facts.device_kind == "mps"
        return (reject("dtype", "float64 does not exist on this device"),) if mps else None
    fast = is_fast(dtype, facts)
    if fast:
        return None
    if fast is None and request.dtype is None:
        return None  # nobody asked for the type by name
    if fast is None:
        fact = f"fast_{dtype}"
        return (unknown("dtype", fact, f"whether this device computes {dtype} at full speed"),)
    source = "asked for" if request.dtype == dtype else "the checkpoint's own type"
    message = f"{dtype}, {source}, has no fast path on this device and would run slowly"
    return (warn("dtype", message, hint="compute in another type", bits=COMPUTE_BITS[dtype]),)


def _unknown_type(dtype: str) -> Found:
    near = nearest(dtype.removeprefix("torch."), COMPUTE_BITS)
    hint = f"did you mean {near}?" if near else f"known: {', '.join(COMPUTE_BITS)}"
    return (reject("dtype", f"{dtype} is not a type to compute in", hint=hint),)


_BFLOAT16 = Request(prompt_tokens=100, max_new_tokens=8, dtype="bfloat16")

DTYPE = Rule(
    id="dtype",
    reason="A 16-bit type without hardware runs at a fraction of the speed, in silence.",
    check=_dtype,
    admits=Example(config=LLAMA3, request=_BFLOAT16, facts=RuntimeFacts(fast_bfloat16=True)),
    refuses=Example(
        config=LLAMA3,
        request=_BFLOAT16,
        facts=RuntimeFacts(device_kind="cuda", compute_capability=(7, 5)),
    ),
    unknown=Example(config=LLAMA3, request=_BFLOAT16),
)
