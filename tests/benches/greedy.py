"""Greedy decoding against the library's generation."""

from __future__ import annotations

from collections.abc import Iterator

from benches._figures import PAIRS, Figure, figure, ratios


def measure_figures() -> Iterator[Figure]:
    """Compare greedy decoding with margins with the library's generation, tokens equal."""
    import torch

    from labkit import models
    from labkit.backends.transformers import TransformersBackend
    from labkit.experiments._passages import load_passages
    from labkit.harness import greedy

    backend = TransformersBackend(loaded=models.load())
    prompts = [backend.encode(passage.text)[:300] for passage in load_passages(3)]
    steps = 24

    def ours() -> list[list[int]]:
        return [list(greedy(backend, ids, steps=steps).tokens) for ids in prompts]

    def theirs() -> list[list[int]]:
        answers = []
        for ids in prompts:
            output = backend.model.generate(
                torch.tensor([ids]),
                max_new_tokens=steps,
                min_new_tokens=steps,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
            answers.append(output.sequences[0, len(ids) :].tolist())
        return answers

    if ours() != theirs():
        raise SystemExit("greedy and generate must choose the same tokens; they do not.")
    yield figure(
        "greedy over generate",
        ratios(ours, theirs, pairs=PAIRS),
        unit="ratio",
        target=1.0,
        at_most=True,
        note=f"3 prompts of 300 tokens, {steps} steps, embedded model, float16, tokens equal",
    )
