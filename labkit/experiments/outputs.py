"""Frozen outputs: greedy answers to the lab's own questions, made once a variant and kept.

Questions are answered in batches through the backend contract, so that every option of the lab
can make a variant. What was answered stands in a journal; a killed run goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from labkit import models
from labkit.backends import Backend
from labkit.backends.observing import observe_prompts, observe_run, resolve_model
from labkit.backends.transformers import TransformersBackend
from labkit.experiments._questions import Question, write_questions
from labkit.experiments._variants import CAP_TOKENS, Variant, find_variant
from labkit.files import digest_of
from labkit.harness.traces import require_finite
from labkit.journal import Journal
from labkit.knobs import parse_option
from labkit.outputs import AT_CAP, OUTPUTS_NAME, Output, write_outputs
from labkit.progress import Progress, tell
from labkit.record import end_record, observe, seal_record, start_record, substrate

# A batch has these of its own; they are not those of the one prompt that is observed.
_OF_A_BATCH = ("execution.batch_rows", "execution.mask", "execution.prefill_pieces")


def make_outputs(
    name: str,
    folder: Path,
    *,
    model: str = "embedded",
    questions: Sequence[Question] | None = None,
    cap: int = CAP_TOKENS,
    progress: Progress = tell,
) -> str:
    """Answer the questions as a variant does; write its outputs and the record of the run.

    Args:
        name: One of `VARIANTS`.
        folder: Gets `outputs.jsonl`, `record.json`, and a journal from which a killed run goes on.
        model: As `labkit.models.load` takes it; it needs a chat template.
        questions: The lab's own by default.
        cap: Largest number of tokens of an answer.
        progress: Called after each answer.

    Returns:
        The SHA-256 of the outputs' file.

    Raises:
        OutputsError: If there is no such variant.
    """
    variant = find_variant(name)
    asked = list(questions or write_questions())
    with _recorded(folder, {"name": name, "model": model, "dtype": variant.dtype}):
        backend = TransformersBackend(loaded=models.load(model, dtype=variant.dtype))
        with _applied(variant, backend) as changed:
            _observe(folder, changed, asked, rows=variant.rows, cap=cap)
            journal = Journal(folder / "journal.jsonl")
            made = []
            for question, tokens in _answers(
                changed, asked, rows=variant.rows, cap=cap, journal=journal
            ):
                made.append(_output(backend, question, tokens))
                progress(len(made), len(asked), question.id)
        return write_outputs(folder / OUTPUTS_NAME, made)


def _applied(
    variant: Variant, backend: TransformersBackend
) -> AbstractContextManager[TransformersBackend]:
    if variant.option is None:
        return nullcontext(backend)
    # An option of a transformers backend yields another one.
    changed = parse_option(variant.option).applied(backend)
    return cast("AbstractContextManager[TransformersBackend]", changed)


@contextmanager
def _recorded(folder: Path, profile: Mapping[str, object]) -> Iterator[None]:
    """Keep a record that says started, then finished with the outputs' digest, or failed."""
    start_record(folder, command="outputs", profile=profile)
    try:
        yield
    except BaseException as error:
        seal_record(folder, end_record(folder, failure=error), files=[])
        raise
    seal_record(folder, end_record(folder), files=[folder / OUTPUTS_NAME])


def _observe(
    folder: Path,
    backend: TransformersBackend,
    questions: Sequence[Question],
    *,
    rows: int,
    cap: int,
) -> None:
    """Record what the live model has in force, and what it is asked."""
    prompts = [_prompt_ids(backend, question) for question in questions]
    seen = observe_run(backend, prompts[0])
    observe(
        folder,
        observed={
            **{name: value for name, value in seen.items() if name not in _OF_A_BATCH},
            **substrate(),
            **observe_prompts([backend.decode(ids) for ids in prompts], prompts),
            "identity.prompts": digest_of([question.prompt for question in questions]),
            "execution.decoding": "greedy, of equal logits the lowest id",
            "execution.truncation": "none",
        },
        resolved=resolve_model(backend.loaded)
        | {"execution.steps": cap, "execution.batch_rows": rows},
    )


def _answers(
    backend: TransformersBackend,
    questions: Sequence[Question],
    *,
    rows: int,
    cap: int,
    journal: Journal,
) -> Iterator[tuple[Question, list[int]]]:
    """Yield each question with its tokens, a batch at a time, from the journal where it can."""
    ends = _end_tokens(backend)
    for start in range(0, len(questions), rows):
        batch = questions[start : start + rows]
        prompts = [_prompt_ids(backend, question) for question in batch]
        digest = digest_of({"manifest": backend.manifest(), "prompts": prompts, "cap": cap})
        if not journal.has(batch[0].id, digest=digest):
            tokens = greedy_batch(backend, prompts, cap=cap, ends=ends)
            journal.append(batch[0].id, digest=digest, value=tokens)
        yield from zip(batch, journal.value(batch[0].id, digest=digest), strict=True)


def greedy_batch(
    backend: Backend, prompts: Sequence[Sequence[int]], *, cap: int, ends: frozenset[int]
) -> list[list[int]]:
    """Decode prompts together, each until an end token or the cap.

    A row that has ended is fed on, unread, until the last one ends.

    Returns:
        The tokens of each prompt, its end token included.

    Raises:
        NotFinite: If a logit is NaN or infinite.
    """
    session = backend.session(capacity_tokens=max(map(len, prompts)) + cap)
    answers: list[list[int]] = [[] for _ in prompts]
    feed = [list(prompt) for prompt in prompts]
    for step in range(cap):
        logits = session.next_logits(feed)
        require_finite(logits, step=step)
        feed = [[int(token)] for token in np.argmax(logits, axis=1)]
        running = [a for a in zip(answers, feed, strict=True) if not (a[0] and a[0][-1] in ends)]
        for answer, token in running:
            answer += token
        if all(answer[-1] in ends for answer in answers):
            break
    return answers


def _prompt_ids(backend: TransformersBackend, question: Question) -> list[int]:
    turns = [{"role": "user", "content": question.prompt}]
    rendered = backend.loaded.tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, tokenize=False
    )
    return backend.encode(rendered)


def _end_tokens(backend: TransformersBackend) -> frozenset[int]:
    stated: Any = backend.model.generation_config.eos_token_id
    own = backend.loaded.tokenizer.eos_token_id
    listed = stated if isinstance(stated, list) else [stated]
    return frozenset(token for token in (*listed, own) if token is not None)


def _output(backend: TransformersBackend, question: Question, tokens: Sequence[int]) -> Output:
    ended = tokens[-1] in _end_tokens(backend)
    text = _text(backend, tokens)
    return Output(
        **asdict(question),
        text=text,
        output_tokens=len(tokens),
        stop_reason="stop" if ended else AT_CAP,
        token_ids=tuple(tokens),
        token_ends=_token_ends(backend, tokens, text),
    )


def _text(backend: TransformersBackend, tokens: Sequence[int]) -> str:
    text: str = backend.loaded.tokenizer.decode(
        list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return text


def _token_ends(backend: TransformersBackend, tokens: Sequence[int], text: str) -> tuple[int, ...]:
    """Return how much of the text stands after each token.

    A token may end inside a character; that character counts once it is whole.
    """
    ends = []
    for count in range(1, len(tokens) + 1):
        part = _text(backend, tokens[:count])
        same = next((i for i, (a, b) in enumerate(zip(part, text, strict=False)) if a != b), None)
        ends.append(len(part) if same is None else same)
    return tuple(ends)
