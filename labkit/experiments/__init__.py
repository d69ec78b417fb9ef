"""One module a notebook: each measures its section and writes it to the run's results.json.

Only what a section needs is loaded: fingerprints and admission run without torch.
"""

from __future__ import annotations

import warnings

from labkit.experiments._section import as_profile, run_section

# Libraries below offer progress bars as widgets and warn where there are none, with a path of
# this machine in the text; progress is told by `labkit.progress` instead.
warnings.filterwarnings("ignore", message="IProgress not found")

__all__ = ["as_profile", "run_section"]
