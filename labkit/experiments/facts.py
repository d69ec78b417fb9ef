"""Facts for the command line: learned by trying, written to a file, and checked again later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.admission import RuntimeFacts
from labkit.errors import RequestError
from labkit.files import dump_json, write_atomically
from labkit.rules._files import read_facts

if TYPE_CHECKING:
    from labkit.facts import Checked, LearnedFacts

_SLOW_ATTENTION = "flex_attention"


def learn(
    *,
    model: str | None = None,
    revision: str | None = None,
    device: str | None = None,
    thorough: bool = False,
    compile_here: bool = True,
    declared: RuntimeFacts | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> LearnedFacts:
    """Learn the facts of this machine, and of a model where one is named.

    Args:
        model: `embedded`, a local folder or a hub id; None leaves the model's facts unknown.
        revision: The commit of a hub id.
        device: As torch spells it; None takes the first CUDA device, or the CPU.
        thorough: Whether to try what takes more than ten seconds as well.
        compile_here: Whether to compile a small function.
        declared: Facts that are to be checked: whatever they name is tried too.
        say: Receives one line a step.

    Raises:
        ModelError: If the model cannot be loaded.
        RequestError: If torch does not have the device.
    """
    from labkit import models
    from labkit.facts import learn_facts

    place = _device(device)
    named = (declared.attention_implementations if declared else None) or ()
    loaded: Any = None
    if model is not None:
        loaded = models.load(model, device=place, revision=revision, say=say)
    return learn_facts(
        loaded and loaded.model,
        place,
        tokenizer=loaded and loaded.tokenizer,
        thorough=thorough or _SLOW_ATTENTION in named,
        compile_here=compile_here,
        attention=named,
    )


def check_file(path: Path, **options: Any) -> tuple[Checked, ...]:
    """Try every fact that a file declares, and return how each came out.

    Args:
        path: A file that `labkit admission --facts` reads.
        **options: As `learn` takes them.

    Raises:
        RequestError: If the file is no set of facts, or torch does not have the device.
    """
    from labkit.facts import check_facts

    declared = read_facts(path)
    return check_facts(declared, learn(declared=declared, **options))


def write_facts(learned: LearnedFacts, path: Path) -> None:
    """Write facts as `labkit admission --facts` reads them."""
    write_atomically(path, dump_json(learned.to_facts_json(), what="the facts"))


def _device(device: str | None) -> str:
    """Return the device to try things on, once torch has put something there."""
    import torch

    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise RequestError(
            f"The device must be one that torch has here; got device={device!r}: "
            f"{(str(error) or type(error).__name__).splitlines()[0]}. Name cpu, or leave it out."
        ) from error
    return device
