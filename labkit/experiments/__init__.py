"""One module a notebook: each measures its section and writes it to the run's results.json.

Only what a section needs is loaded: fingerprints and admission run without torch.
"""

from __future__ import annotations

from labkit.experiments._section import as_profile, run_section

__all__ = ["as_profile", "run_section"]
