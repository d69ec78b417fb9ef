"""The convergence figure for paper, where nothing moves and nobody hovers."""

from __future__ import annotations

import os
from pathlib import Path

from labkit.charts.rounding import convergence_labels, convergence_points
from labkit.charts.style import KINDS, Section, powers_of_ten
from labkit.errors import ResultsError

FORMATS = (".png", ".svg", ".pdf")
_DPI = 200


def save_convergence(section: Section, path: str | os.PathLike[str]) -> Path:
    """Write the convergence figure to a file; the same section gives the same bytes.

    Args:
        section: The preservation section.
        path: Where to, ending in .png, .svg or .pdf.

    Raises:
        ResultsError: If the section has no lanes, or the ending is another.
    """
    target = Path(path)
    if target.suffix not in FORMATS:
        raise ResultsError(f"a printed figure must end in one of {FORMATS}; got path={path!s}.")
    points = convergence_points(section)
    # No pyplot: its global state would outlive the call.
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "labkit", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for option in dict.fromkeys(point["option"] for point in points):
            line = [point for point in points if point["option"] == option]
            axes.plot(
                [point["unit_roundoff"] for point in line],
                [point["distance"] for point in line],
                color=KINDS[line[0]["kind"]],
                marker="o",
                markersize=3,
                linewidth=1,
            )
        labels = convergence_labels(points)
        for label in labels:
            axes.text(
                label["unit_roundoff"],
                label["distance"],
                label["text"],
                color=KINDS[label["kind"]],
                ha="right",
                va="center",
            )
        names = {point["unit_roundoff"]: point["precision"] for point in points}
        distances = [place["distance"] for place in (*points, *labels)]
        ticks = powers_of_ten(min(distances), max(distances))
        axes.set(
            xscale="log",
            yscale="log",
            xlim=(min(names) / 2**7, max(names) * 2),
            ylim=(ticks[0], ticks[-1]),
            xlabel="Unit roundoff of the arithmetic",
            ylabel="Distance from the reference (logits)",
        )
        axes.set_xticks(list(names), list(names.values()))
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(target, dpi=_DPI, metadata=_UNDATED[target.suffix])
    return target


# A file's date would make two equal figures differ.
_UNDATED = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
