"""Options and keys by which a file is opened: rope, windows, kernels, cache types, names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from labkit.probes._registry import ProbeContext
from labkit.probes._result import Evidence
from labkit.probes.llamacpp._apart import ask_logits_apart
from labkit.probes.llamacpp._asking import (
    ask,
    complete,
    difference,
    last_logits,
    llama_cpp,
    open_file,
    read_logits,
)
from labkit.probes.llamacpp._registry import question
from labkit.probes.llamacpp._stand_ins import with_unknown_tensor_type, write_gguf

_TINY = "a tiny random Llama file"
FACTOR, WINDOW, TOKENS, ORIGINAL, PAST = 4.0, 4, 32, 32, 112
_UNKNOWN_STORAGE = 99
_BFLOAT16 = 30  # ggml's number, for which the Python layer has no name


def _ask_logits(
    path: Path,
    *,
    plain: Path | None = None,
    wanted: Any = None,
    tokens: int = TOKENS,
    opened: Mapping[str, Any] | None = None,
    effect: str,
    stand_in: str = _TINY,
) -> Evidence:
    """Compare the last logits with those without the request, and with those wanted.

    Args:
        path: The file that is asked.
        plain: The file without the request; the same one by default.
        wanted: Logits that the request must give; any others than the plain ones by default.
        tokens: Length of the prompt.
        opened: Options for `Llama`.
        effect: What is measured, in words.
        stand_in: What stands in for a checkpoint.
    """
    control = ask(lambda: last_logits(plain or path, tokens=tokens))
    asked = ask(lambda: last_logits(path, tokens=tokens, **(opened or {})))
    if asked.value is None:
        return Evidence(attempt=asked, control=control, stand_in=stand_in)
    moved = difference(asked.value, control.value)
    measured: dict[str, Any] = {"logit_change": moved, "tokens": tokens}
    did_it = moved > 0
    if wanted is not None:
        measured["logit_change_from_the_wanted"] = difference(asked.value, wanted)
        did_it = measured["logit_change_from_the_wanted"] == 0
    return Evidence(
        attempt=asked,
        control=control,
        did_it=did_it,
        effect=effect,
        measured=measured,
        stand_in=stand_in,
    )


def _linear() -> Any:
    """Return the logits under the linear scaling that both the file and the API can name."""
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": FACTOR}
    return ask(lambda: last_logits(write_gguf(metadata=linear), tokens=TOKENS)).value


@question("rope_scaling_without_type")
def rope_scaling_without_type(context: ProbeContext) -> Evidence:
    """Write a factor without a type into the file, and compare with the linear type."""
    del context
    return _ask_logits(
        write_gguf(metadata={"llama.rope.scaling.factor": FACTOR}),
        plain=write_gguf(),
        wanted=_linear(),
        effect="whether the last logits are those of linear scaling by the same factor",
    )


@question(
    "rope_type_unknown", asks="RoPE scaling by 4 of the type `stretched`, written into the file"
)
def rope_type_unknown(context: ProbeContext) -> Evidence:
    """Write a type that nobody knows into the file, and look whether anything says so."""
    del context
    keys = {"llama.rope.scaling.type": "stretched", "llama.rope.scaling.factor": FACTOR}
    linear, plain = _linear(), write_gguf()
    control = ask(lambda: last_logits(plain, tokens=TOKENS))
    asked = ask_logits_apart(write_gguf(metadata=keys), tokens=TOKENS, context=512)
    return Evidence(
        attempt=asked,
        control=control,
        did_it=False,
        effect="no release has such a scaling; whether another was put in its place",
        measured={
            "same_as_unscaled": _same(asked.value, control.value),
            "same_as_linear": _same(asked.value, linear),
        },
        stand_in=_TINY,
    )


@question("dynamic_rope_with_a_cache")
def dynamic_rope_with_a_cache(context: ProbeContext) -> Evidence:
    """Write the type `dynamic` into the file and compare with no scaling and with linear."""
    del context
    original = {"llama.rope.scaling.factor": FACTOR, "llama.context_length": ORIGINAL}
    files = {
        kind: write_gguf(metadata={**original, "llama.rope.scaling.type": kind})
        for kind in ("none", "linear", "dynamic")
    }
    rows = {kind: ask_logits_apart(path, tokens=PAST, context=512) for kind, path in files.items()}
    asked = rows["dynamic"].value
    others = {kind: _same(asked, rows[kind].value) for kind in ("none", "linear")}
    return Evidence(
        attempt=rows["dynamic"],
        control=rows["none"],
        did_it=not any(others.values()),
        effect="whether the last logits differ from those without scaling and with the linear one",
        measured={f"same_as_{kind}": same for kind, same in others.items()} | {"tokens": PAST},
        stand_in=_TINY,
    )


@question("rope_scaling_set_after_build")
def rope_scaling_set_after_build(context: ProbeContext) -> Evidence:
    """Write the factor to the open file's own parameters and read again."""
    del context
    path = write_gguf()
    plain = ask(lambda: last_logits(path, tokens=TOKENS))

    def changed() -> Any:
        llama = open_file(path, n_ctx=512, logits_all=True)
        llama.context_params.rope_freq_scale = 1 / FACTOR
        return read_logits(llama, tokens=TOKENS)

    asked = ask(changed)
    moved = None if asked.value is None else difference(asked.value, plain.value)
    return Evidence(
        attempt=asked,
        control=plain,
        did_it=moved is not None and moved > 0,
        effect="the largest change of a last-token logit",
        measured={"logit_change": moved},
        stand_in=_TINY,
    )


@question("window_of_the_architecture")
def window_of_the_architecture(context: ProbeContext) -> Evidence:
    """Change a token outside the window of a one-layer Gemma 2 and look at the last logits."""
    del context
    return _ask_window("gemma2", stand_in="a tiny random Gemma 2 file of one layer")


@question("window_on_an_architecture_without")
def window_on_an_architecture_without(context: ProbeContext) -> Evidence:
    """Change a token outside the window written into a Llama file."""
    del context
    return _ask_window("llama", stand_in="a tiny random Llama file of one layer")


def _ask_window(architecture: str, *, stand_in: str) -> Evidence:
    def file(window: int) -> Path:
        key = f"{architecture}.attention.sliding_window"
        return write_gguf(architecture=architecture, layers=1, metadata={key: window})

    narrow, wide = file(WINDOW), file(4 * TOKENS)
    control = ask(lambda: last_logits(wide, tokens=TOKENS))
    asked = ask(lambda: last_logits(narrow, tokens=TOKENS))
    if asked.value is None:
        return Evidence(attempt=asked, control=control, stand_in=stand_in)
    other = ask(lambda: last_logits(narrow, tokens=TOKENS, first=150)).value
    moved = difference(asked.value, other)
    return Evidence(
        attempt=asked,
        control=control,
        did_it=moved == 0,
        effect="the largest change of a last-token logit when the first token, outside every "
        "window, is another one",
        measured={"logit_change": moved, "window": WINDOW, "tokens": TOKENS},
        stand_in=stand_in,
    )


@question("quantisation_of_an_unknown_method")
def quantisation_of_an_unknown_method(context: ProbeContext) -> Evidence:
    """Open a file one of whose tensors is stored in a type of no release."""
    del context
    whole = write_gguf()
    spoilt = with_unknown_tensor_type(whole, number=_UNKNOWN_STORAGE)
    return Evidence(
        attempt=ask(lambda: complete(spoilt)),
        control=ask(lambda: complete(whole)),
        did_it=False,
        effect="nobody can read such a tensor",
        measured={"storage_type": _UNKNOWN_STORAGE},
        stand_in="a tiny random file with that number in a tensor's place",
    )


@question(
    "quantised_values_without_flash_attention",
    asks="values cached in q4_0, with flash attention off",
)
def quantised_values_without_flash_attention(context: ProbeContext) -> Evidence:
    """Open a file with a quantised V cache and read what the cache was made of."""
    del context
    library = llama_cpp()
    return _ask_cache({"type_v": library.GGML_TYPE_Q4_0}, wanted=("V", "q4_0"))


@question("cache_type_asked_for", asks="keys cached in bfloat16")
def cache_type_asked_for(context: ProbeContext) -> Evidence:
    """Open a file with a bfloat16 K cache and read what the cache was made of."""
    del context
    return _ask_cache({"type_k": _BFLOAT16}, wanted=("K", "bf16"))


@question(
    "cache_of_a_float32_file",
    asks="a float32 file opened without naming a cache type, its keys and values kept in float32",
)
def cache_of_a_float32_file(context: ProbeContext) -> Evidence:
    """Open a float32 file and read what its cache was made of, and what that does to logits."""
    del context
    path = write_gguf()
    wide = {name: llama_cpp().GGML_TYPE_F32 for name in ("type_k", "type_v")}
    kept = ask(lambda: last_logits(path, tokens=TOKENS)).value
    moved = difference(kept, ask(lambda: last_logits(path, tokens=TOKENS, **wide)).value)
    evidence = _ask_cache({}, wanted=("K", "f32"))
    measured = {**evidence.measured, "logit_change_from_a_float32_cache": moved}
    return replace(evidence, measured=measured)


def _ask_cache(opened: Mapping[str, Any], *, wanted: tuple[str, str]) -> Evidence:
    """Open a file and read from llama.cpp's own log in which types its cache was made."""
    path, log = write_gguf(), list[str]()
    control = ask(lambda: open_file(path, n_ctx=256) and None)
    asked = ask(lambda: open_file(path, n_ctx=256, **opened) and None, log=log)
    found = dict(re.findall(r"\b([KV]) \((\w+)\)", "".join(log)))
    side, kind = wanted
    return Evidence(
        attempt=asked,
        control=control,
        did_it=found.get(side) == kind,
        effect="in which types the cache was made, by the log of the library that made it",
        measured={"cache_types": found},
        stand_in=_TINY,
    )


@question("flash_attention_asked_for", asks="flash attention, by the API's own switch")
def flash_attention_asked_for(context: ProbeContext) -> Evidence:
    """Open a file with and without, and compare the last logits: the kernel rounds otherwise."""
    del context
    return _ask_logits(
        write_gguf(),
        opened={"flash_attn": True},
        effect="whether any last-token logit moved; flash attention adds in another order",
    )


@question("gpu_layers_without_a_gpu", asks="every layer on a GPU, of a build that has none")
def gpu_layers_without_a_gpu(context: ProbeContext) -> Evidence:
    """Ask for every layer on a GPU and read whether the build has one."""
    del context
    path = write_gguf()
    asked = ask(lambda: complete(path, opened={"n_gpu_layers": -1}))
    control = ask(lambda: complete(path))
    can = bool(llama_cpp().llama_supports_gpu_offload())
    return Evidence(
        attempt=asked,
        control=control,
        did_it=can,
        effect="whether the build can put any layer on a GPU",
        measured={"build_has_a_gpu": can, "same_tokens_as_without": asked.value == control.value},
        stand_in=_TINY,
    )


@question("misspelt_loading_option", asks="a file opened with the option `n_cttx` of 1024")
def misspelt_loading_option(context: ProbeContext) -> Evidence:
    """Write an option's name wrong as the file is opened, and read the context's length."""
    del context
    path = write_gguf()
    control = ask(lambda: open_file(path).n_ctx())
    asked = ask(lambda: open_file(path, n_cttx=1024).n_ctx())
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value == 1024,
        effect="how many positions the context has",
        measured={"positions": asked.value, "positions_without": control.value},
        stand_in=_TINY,
    )


@question(
    "override_of_an_unknown_key",
    asks="the metadata key `llama.context_lenght` overridden with 64, a name no file has",
)
def override_of_an_unknown_key(context: ProbeContext) -> Evidence:
    """Override a key that does not exist and read the trained length of the open file."""
    del context
    path = write_gguf()

    def trained(name: str) -> int:
        llama = open_file(path, n_ctx=256, kv_overrides={name: 64})
        return int(llama_cpp().llama_model_n_ctx_train(llama.model))

    control = ask(lambda: trained("llama.context_length"))
    asked = ask(lambda: trained("llama.context_lenght"))
    return Evidence(
        attempt=asked,
        control=control,
        did_it=asked.value == 64,
        effect="the trained length that the open file states",
        measured={"trained_tokens": asked.value, "with_the_right_name": control.value},
        stand_in=_TINY,
    )


@question("unknown_chat_format", asks="the chat format `chatml2`, which the API does not have")
def unknown_chat_format(context: ProbeContext) -> Evidence:
    """Open a file with a format that does not exist, and chat."""
    del context
    path = write_gguf()

    def answer(name: str) -> str:
        llama = open_file(path, n_ctx=256, chat_format=name)
        return str(llama.create_chat_completion([{"role": "user", "content": "Hi"}], max_tokens=1))

    return Evidence(
        attempt=ask(lambda: answer("chatml2")),
        control=ask(lambda: answer("chatml")),
        did_it=False,
        effect="a format that does not exist cannot be used",
        stand_in=_TINY,
    )


def _same(left: Any, right: Any) -> bool | None:
    return None if left is None or right is None else bool((left == right).all())
