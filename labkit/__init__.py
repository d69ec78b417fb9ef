"""Ask of any inference option: does it change how a model is computed, or the model?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labkit.admission import RULES, Decision, Reason, Request, RuntimeFacts, admit
    from labkit.errors import LabError
    from labkit.harness import first_divergence, greedy, near_tie_share, summarise_knob
    from labkit.knobs import fake_quantise_linears
    from labkit.profiles import Profile, load_profile
    from labkit.results import RunFolder, read_results
    from labkit.spec import ModelSpec, fingerprint

__version__ = "0.1.0"

__all__ = [
    "RULES",
    "Decision",
    "LabError",
    "ModelSpec",
    "Profile",
    "Reason",
    "Request",
    "RunFolder",
    "RuntimeFacts",
    "admit",
    "fake_quantise_linears",
    "fingerprint",
    "first_divergence",
    "greedy",
    "load_profile",
    "near_tie_share",
    "read_results",
    "summarise_knob",
]

# Which room holds each public name. Rooms load on first use, so `import labkit` stays light.
_ROOMS = {
    "labkit.admission": ("RULES", "Decision", "Reason", "Request", "RuntimeFacts", "admit"),
    "labkit.errors": ("LabError",),
    "labkit.harness": ("first_divergence", "greedy", "near_tie_share", "summarise_knob"),
    "labkit.knobs": ("fake_quantise_linears",),
    "labkit.profiles": ("Profile", "load_profile"),
    "labkit.results": ("RunFolder", "read_results"),
    "labkit.spec": ("ModelSpec", "fingerprint"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    """Load the room that holds a public name."""
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    return getattr(importlib.import_module(_ROOM_OF[name]), name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted([*globals(), *__all__])
