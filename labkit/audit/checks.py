"""The preflight: what a run must have on file before anyone reads its numbers.

A check of your own is a function with `@check`, and a case in the tests.
"""

from __future__ import annotations

from typing import Literal

from labkit.audit._registry import Found, check, judged
from labkit.audit.evidence import RunEvidence
from labkit.record import STAGES, Stated


def _recorded(
    run: RunEvidence, *names: str, stage: Literal["in_force", "observed"] = "in_force"
) -> Found:
    """Answer whether fields of the record are on file, naming those that are not.

    Args:
        run: The run.
        *names: `layer.field`, each.
        stage: `in_force` takes what a request was resolved to; `observed` the live objects alone.
    """
    how = "recorded" if stage == "in_force" else "observed"
    lacks = [name for name in names if getattr(run.record.stated(name), stage) is None]
    if lacks:
        return "missing", f"not {how}: {', '.join(lacks)}"
    return "holds", f"{how}: {', '.join(names)}"


@check(stage="identity")
def checkpoint(run: RunEvidence) -> Found:
    """The checkpoint is named by the digest of its files and a sample of its live weights."""
    return _recorded(run, "identity.checkpoint", "identity.weights_sample", stage="observed")


@check(stage="identity")
def tokenizer_and_template(run: RunEvidence) -> Found:
    """The tokenizer, the chat template and the generation defaults in force have digests."""
    return _recorded(
        run, "identity.tokenizer", "identity.chat_template", "identity.generation_config"
    )


@check(stage="identity")
def prompts(run: RunEvidence) -> Found:
    """The prompts have digests: as texts, as rendered, and as token ids."""
    return _recorded(run, "identity.prompts", "identity.rendered_prompts", "identity.prompt_tokens")


@check(stage="execution")
def engine(run: RunEvidence) -> Found:
    """The releases of the stack, the driver and the device are on file."""
    return _recorded(
        run,
        "substrate.torch",
        "substrate.transformers",
        "substrate.driver",
        "substrate.processor",
        "substrate.accelerator",
        "execution.device",
    )


@check(stage="execution")
def precision_and_attention(run: RunEvidence) -> Found:
    """The dtype, the attention implementation and its kernels were seen in the live objects."""
    return _recorded(
        run,
        "execution.dtype",
        "execution.attention",
        "execution.sdpa_kernels",
        "execution.mask",
        stage="observed",
    )


@check(stage="execution")
def cache_and_batch(run: RunEvidence) -> Found:
    """The cache, the dtype of what it holds, the batch and the prompt's pieces are on file."""
    return _recorded(
        run,
        "execution.cache",
        "execution.kv_cache_dtype",
        "execution.batch_rows",
        "execution.prefill_pieces",
    )


@check(stage="execution")
def model_changes(run: RunEvidence) -> Found:
    """What changes the model is on file: rounding, rotary positions, window, anything else."""
    return _recorded(
        run,
        "execution.weight_rounding",
        "execution.rope",
        "execution.window",
        "execution.other_changes",
    )


@check(stage="decoding")
def budget(run: RunEvidence) -> Found:
    """How tokens are chosen, how many, with which seeds, and what a long prompt meets."""
    return _recorded(
        run, "execution.decoding", "execution.steps", "execution.seeds", "execution.truncation"
    )


@check(stage="decoding")
def nothing_changed_on_the_way(run: RunEvidence) -> Found:
    """Nothing of how the outputs were computed was changed between the request and the run."""
    stated = [item for item in run.record.all_stated() if item[0].startswith("execution.")]
    compared = [item for item in stated if len(_stages(item[1])) > 1]
    if not compared:
        return "not evaluated", "no field of execution is on file at two stages"
    changed = [f"{name}: {', '.join(_stages(it))}" for name, it in compared if it.is_changed]
    return judged(not changed, "; ".join(changed) or f"{len(compared)} fields, none changed")


def _stages(stated: Stated) -> list[str]:
    """Return the stages of a field that are on file, each with its value."""
    values = ((stage, getattr(stated, stage)) for stage in STAGES)
    return [f"{stage} {value!r}" for stage, value in values if value is not None]


@check(stage="scoring")
def contract(run: RunEvidence) -> Found:
    """How outputs became results is on file: extractor, scorer, metric, uncertainty."""
    return _recorded(
        run,
        "evaluation.extractor",
        "evaluation.scorer",
        "evaluation.metric",
        "evaluation.uncertainty",
    )


@check(stage="scoring")
def items(run: RunEvidence) -> Found:
    """Every aggregate goes back to items: rows of the results, or outputs of a replay bundle."""
    rows = sum(1 for _ in run.rows())
    if run.results_fault:
        return "does not hold", run.results_fault
    found = f"{rows} rows, {len(run.outputs)} outputs"
    return ("holds" if rows or run.outputs else "missing"), found


@check(stage="release")
def ended_well(run: RunEvidence) -> Found:
    """The record was made before the run and says that it finished."""
    return judged(run.record.status == "finished", f"status={run.record.status!r}")


@check(stage="release")
def from_a_commit(run: RunEvidence) -> Found:
    """The lab's own code is a commit without local changes."""
    harness = run.record.in_force("evaluation.harness")
    if harness is None:
        return "missing", "not recorded: evaluation.harness"
    clean = isinstance(harness, dict) and harness.get("dirty") is False
    return judged(clean, f"harness={harness!r}")


@check(stage="release")
def files_are_its_own(run: RunEvidence) -> Found:
    """The run's files are there, and have the digests that the record holds."""
    if not run.record.artefacts:
        return "missing", "the record vouches for no file"
    found = "; ".join(run.file_faults) or f"{len(run.record.artefacts)} files as recorded"
    return judged(not run.file_faults, found)


@check(stage="release")
def replay_bundle(run: RunEvidence) -> Found:
    """Prompts, outputs, traces and the environment are kept for a rerun."""
    kept = [item.path for item in run.record.artefacts if item.path.startswith("replay/")]
    return ("holds" if kept else "missing"), f"{len(kept)} files under replay/"
