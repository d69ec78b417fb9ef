"""Facts about the device and the installed packages, learned by reading, timing and compiling."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from labkit.facts._finding import Finding, find
from labkit.probes import attempt
from labkit.probes.libraries import torch_library
from labkit.probes.precision import HALF_SPEED
from labkit.probes.timing import DtypeTimes, time_dtypes

COMPILE_TIMEOUT_S = 120.0
# The package whose import proves that weights can be quantised by a method of transformers.
QUANTIZATION_PACKAGES = {
    "bitsandbytes": "bitsandbytes",
    "gptq": "gptqmodel",
    "awq": "gptqmodel",
    "hqq": "hqq",
    "quanto": "optimum.quanto",
    "torchao": "torchao",
    "compressed-tensors": "compressed_tensors",
}
FLASH_PACKAGES = ("flash_attn", "flash_attn_interface")
_CGROUP = Path("/sys/fs/cgroup")
_COMPILE = (
    "import sys, torch; f = torch.compile(lambda x: x.sin() * 2 + 1); "
    "f(torch.ones(17, device=sys.argv[1]))"
)


def learn_device(device: str, *, compile_here: bool = True) -> list[Finding]:
    """Learn what the device is and can do."""
    kind = torch_library().device(device).type
    return [
        Finding(name="device_kind", value=kind, how="read from the device that was named"),
        *_learn_capability(device, kind),
        find(
            "device_memory_bytes",
            lambda: free_memory_bytes(device),
            how="asked the device for its free memory"
            if kind == "cuda"
            else "read free memory and the container's own limit",
        ),
        *_learn_speeds(device),
        *([_learn_compiling(device)] if compile_here else []),
        *_learn_packages(),
    ]


def _learn_capability(device: str, kind: str) -> list[Finding]:
    if kind != "cuda":
        how = "not tried: only a CUDA device has one"
        return [Finding(name="compute_capability", value=None, how=how)]
    torch = torch_library()
    return [
        find(
            "compute_capability",
            lambda: tuple(torch.cuda.get_device_capability(device)),
            how="asked the CUDA driver",
        )
    ]


def free_memory_bytes(device: str) -> int:
    """Return the memory that a cache could still have."""
    if device.startswith("cuda"):
        free, _ = torch_library().cuda.mem_get_info(device)
        return int(free)
    return min(int(psutil.virtual_memory().available), *_cgroup_room_bytes())


def _cgroup_room_bytes() -> list[int]:
    """Return what a container's limit leaves, where there is one."""
    with contextlib.suppress(OSError, ValueError):
        limit = int((_CGROUP / "memory.max").read_text())
        return [max(limit - int((_CGROUP / "memory.current").read_text()), 0)]
    return [sys.maxsize]


def _learn_speeds(device: str) -> list[Finding]:
    times = attempt(lambda: time_dtypes(device))
    how = f"timed a linear layer; from {HALF_SPEED:g} times the fastest other dtype on it is slow"
    return [
        find(
            f"fast_{dtype}",
            functools.partial(_is_fast, times.value, dtype),
            how=how + _measured(times.value, dtype),
        )
        for dtype in ("bfloat16", "float16")
    ]


def _measured(times: DtypeTimes | None, dtype: str) -> str:
    return "" if times is None else f"; {dtype} took {times.slowdown(dtype):.2g} times that"


def _is_fast(times: DtypeTimes | None, dtype: str) -> bool | None:
    return None if times is None else times.slowdown(dtype) < HALF_SPEED


def _learn_compiling(device: str) -> Finding:
    """Compile in a process of its own: a compiler may hang, or take the process with it."""
    how = f"compiled and ran a function of one line in a process of its own, on {device}"
    return find("compile_available", lambda: compiles(device), how=how)


def compiles(device: str, *, timeout_s: float = COMPILE_TIMEOUT_S) -> bool:
    """Compile a small function and say whether it ran in time."""
    with tempfile.TemporaryDirectory() as empty:
        # An empty cache: code compiled earlier would answer for a compiler that is gone.
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": empty, "TRITON_CACHE_DIR": empty}
        try:
            done = subprocess.run(
                [sys.executable, "-c", _COMPILE, device],
                env=environment,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def _learn_packages() -> list[Finding]:
    return [
        Finding(
            name="flash_attention_installed",
            value=any(_imports(name) for name in FLASH_PACKAGES),
            how=f"imported {' or '.join(FLASH_PACKAGES)}",
        ),
        Finding(
            name="quantization_backends",
            value=tuple(m for m, package in QUANTIZATION_PACKAGES.items() if _imports(package)),
            how=f"imported {', '.join(dict.fromkeys(QUANTIZATION_PACKAGES.values()))}",
        ),
    ]


def _imports(package: str) -> bool:
    return not attempt(lambda: importlib.import_module(package)).raised
