"""A head size that is not the width over the heads."""

from __future__ import annotations

import re

from labkit.probes._registry import ProbeContext
from labkit.probes._result import Evidence
from labkit.probes.llamacpp._asking import ask, last_logits
from labkit.probes.llamacpp._registry import question
from labkit.probes.llamacpp._stand_ins import HEADS, WIDTH, write_gguf

TOKENS = 24
STATED = 2 * WIDTH // HEADS


@question("head_size_of_its_own")
def head_size_of_its_own(context: ProbeContext) -> Evidence:
    """Open a file that states a head size of its own and read from the log which was built."""
    del context
    log: list[str] = []
    plain, wider = write_gguf(), write_gguf(head_size=STATED)
    control = ask(lambda: last_logits(plain, tokens=TOKENS))
    asked = ask(lambda: last_logits(wider, tokens=TOKENS), log=log)
    found = re.search(r"n_embd_head_k\s*= (\d+)", "".join(log))
    built = None if found is None else int(found[1])
    finite = asked.value is not None and bool((asked.value == asked.value).all())
    return Evidence(
        attempt=asked,
        control=control,
        did_it=finite and built == STATED,
        effect="the width of a key, by the loader's log, and whether the last logits are finite",
        measured={"stated": STATED, "divided": WIDTH // HEADS, "built": built},
        stand_in="a tiny random Llama file",
    )
