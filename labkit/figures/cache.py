"""What a context costs, for the checkpoints that the reader picks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labkit import charts
from labkit.experiments.fingerprints import read_specs
from labkit.files import data_file
from labkit.sphinx_vega import chart_html

SECTION = "fingerprints"


def render(results: Mapping[str, Any]) -> str:
    """Return the figure of cache bytes against context length."""
    specs = {spec.name: spec for spec in read_specs([data_file("configs")])}
    chart = charts.cache_growth(results["fingerprints"], specs=specs)
    return chart_html(charts.as_stored(chart))
