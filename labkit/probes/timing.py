"""Time one linear layer in each dtype: what a device is fast at, measured."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.probes.libraries import torch_library

ROWS, WIDTH = 256, 768  # a prompt of 256 tokens through a layer of a small model
GPU_ROWS, GPU_WIDTH = 4096, 4096  # large enough that the launch is not what is timed
ROUNDS = 7
REPEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeTimes:
    """Median times of the same product, taken in turns.

    On a CPU it is one thread's own processor time, which other load on the machine does not
    lengthen; on a GPU it is wall time between two synchronisations.

    Attributes:
        shape: Rows, inputs and outputs of the product.
        seconds: Median time of one product by dtype name, seconds.
        ratios: Median over the rounds of dtype time / float32 time.
    """

    shape: tuple[int, int, int]
    seconds: dict[str, float]
    ratios: dict[str, float]

    def slowdown(self, dtype: str) -> float:
        """Return the dtype's time over that of the fastest other dtype."""
        return self.ratios[dtype] / min(r for name, r in self.ratios.items() if name != dtype)

    def to_json(self) -> dict[str, Any]:
        """Return the times as JSON, rounded to what they can carry."""
        return {
            "shape": list(self.shape),
            "median_s": {name: float(f"{s:.3g}") for name, s in self.seconds.items()},
            "time_over_float32": {name: round(r, 3) for name, r in self.ratios.items()},
        }


def time_dtypes(
    device: str, *, dtypes: Sequence[str] = ("float32", "bfloat16", "float16")
) -> DtypeTimes:
    """Time a linear layer's product on a device in several dtypes, float32 among them."""
    torch = torch_library()
    rows, width = (GPU_ROWS, GPU_WIDTH) if device.startswith("cuda") else (ROWS, WIDTH)
    operands = {
        name: (
            torch.ones(rows, width, dtype=getattr(torch, name), device=device),
            torch.ones(width, width, dtype=getattr(torch, name), device=device),
        )
        for name in dict.fromkeys(["float32", *dtypes])
    }
    with _one_thread():
        rounds = [
            {name: _time_linear(*pair) for name, pair in operands.items()}
            for _ in range(ROUNDS + 1)
        ]
    kept = rounds[1:]  # the first round pays for set-up
    return DtypeTimes(
        shape=(rows, width, width),
        seconds={name: statistics.median(r[name] for r in kept) for name in operands},
        ratios={name: statistics.median(r[name] / r["float32"] for r in kept) for name in operands},
    )


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch's CPU work in this thread, so that its processor time is all there is."""
    torch = torch_library()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _time_linear(inputs: Any, weight: Any) -> float:
    """Return the seconds of one product, averaged over a few."""
    torch = torch_library()
    clock = time.perf_counter if inputs.is_cuda else time.thread_time
    wait = torch.cuda.synchronize if inputs.is_cuda else (lambda: None)
    wait()
    started = clock()
    for _ in range(REPEATS):
        torch.nn.functional.linear(inputs, weight)
    wait()
    return (clock() - started) / REPEATS


def declares_fast(dtype: str, device: str) -> bool:
    """Whether the hardware itself says that it multiplies in this dtype.

    A declaration only: it says what to expect of the timing, which decides.
    """
    torch = torch_library()
    if device.startswith("cuda"):
        major, minor = torch.cuda.get_device_capability(device)
        return (major, minor) >= ((8, 0) if dtype == "bfloat16" else (5, 3))
    names = {
        "bfloat16": ("_is_avx512_bf16_supported", "_is_amx_tile_supported"),
        "float16": ("_is_amx_fp16_supported",),
    }[dtype]
    return any(bool(getattr(torch.cpu, name, lambda: False)()) for name in names)
