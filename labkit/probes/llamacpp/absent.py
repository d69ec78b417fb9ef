"""Questions that this stack's API has no option to be asked by, each with the reason."""

from __future__ import annotations

from labkit.probes.llamacpp._registry import no_such_option

no_such_option(
    "right_padding_in_a_batch",
    "a completion takes one prompt, so that there is no batch to pad",
)
no_such_option(
    "temperature_without_sampling",
    "sampling has no switch beside the temperature: 0 means greedy, and no other value can be "
    "given with it",
)
no_such_option(
    "flash_attention_not_installed",
    "the kernel is compiled into the library, so that it cannot be missing",
)
for _name in (
    "static_cache_compilation_impossible",
    "static_cache_without_compilation",
    "static_cache_forced_compilation",
):
    no_such_option(_name, "nothing is compiled as a model runs, so that no option speaks of it")
for _name in ("bfloat16_on_slow_hardware", "float16_on_slow_hardware"):
    no_such_option(
        _name,
        "no option names the dtype of the arithmetic; the file decides in what the weights are "
        "stored, and the kernels in what they compute",
    )
no_such_option(
    "quantised_load_without_backend",
    "a model is not quantised as it is loaded; the kernels for quantised files are compiled in",
)
for _name in ("mask_guessed_from_the_padding", "mask_of_the_new_tokens_only"):
    no_such_option(_name, "no call takes an attention mask")
no_such_option("sinks_beside_a_window", "no option names sinks or a window to keep them beside")
for _name in ("total_length_through_the_pipeline", "two_length_limits"):
    no_such_option(
        _name, "an answer has one limit, of new tokens; none counts the prompt beside it"
    )
no_such_option(
    "truncation_without_a_stored_length",
    "the tokenizer has no option to truncate; a prompt beyond the context is refused",
)
