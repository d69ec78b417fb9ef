"""Put the twins of data/allocation through two public memory estimators, beside their caches.

Run by hand: `python .ci/estimators.py`. The estimators are installed into an environment of
their own that is gone afterwards, at the versions below, and asked offline through the function
that their own command line calls. They are no requirement of the lab.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data" / "allocation" / "allocation.json"
PINS = {"hf-mem": "hf-mem==0.5.6", "ggufit": "ggufit==0.3.0"}
CALLS = {
    "hf-mem": "hf_mem.safetensors.kv_cache.compute_safetensors_kv_cache_size, cache dtype F32",
    "ggufit": "ggufit.hub.normalize, then ggufit.calculator.kv_cache_gb with 32 bits",
}

# Runs in the estimators' environment: configs come in as JSON, bytes or the refusal go out.
ASKING = """
import json, sys, warnings
warnings.simplefilter("ignore")
from ggufit.calculator import kv_cache_gb
from ggufit.hub import normalize
from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size

def hf_mem(config, tokens):
    return int(compute_safetensors_kv_cache_size(config, "F32", tokens, 1))

def ggufit(config, tokens):
    record = normalize("owner/twin", config, None)
    return round(kv_cache_gb(record, tokens, batch=1, kv_bits=32) * 1024**3)

def ask(estimate, config, tokens):
    try:
        return estimate(config, tokens)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:120]}"

asked = json.load(sys.stdin)
tokens = asked["tokens"]
json.dump([{"hf-mem": ask(hf_mem, c, tokens), "ggufit": ask(ggufit, c, tokens)}
           for c in asked["configs"]], sys.stdout)
"""


def main() -> None:
    """Ask both about every twin whose cache was measured, and write what they say."""
    document = json.loads(DATA.read_text(encoding="utf-8"))
    rows = [row for row in document["rows"] if row["live_bytes"]]
    asked = {"tokens": document["long_tokens"], "configs": [row["config"] for row in rows]}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "uv", "venv", "--quiet", folder], check=True)
        python = str(Path(folder) / "bin" / "python")
        install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python]
        subprocess.run([*install, *PINS.values()], check=True)
        done = subprocess.run(
            [python, "-c", ASKING],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=True,
        )
    for row, estimates in zip(rows, json.loads(done.stdout), strict=True):
        row["estimates"] = estimates
    document["estimators"] = {
        name: {"requirement": pin, "call": CALLS[name]} for name, pin in PINS.items()
    }
    DATA.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
