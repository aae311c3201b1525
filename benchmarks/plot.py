"""The curves of growth, as a picture for the documentation."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchmarks.measure import Bench
from benchmarks.rounds import Point

__all__ = ["GROWTH", "plot_growth"]

GROWTH = Path("docs/performance-growth.svg")
_ROLES = {"ordinary party": "party", "lead": "lead", "Charlie": "charlie"}


def plot_growth(bench: Bench, path: Path) -> None:
    """Draw what a round costs, against the number of parties and against the length of the vector."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasSVG(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    _curves(left, [p.K for p in bench.by_parties], bench.by_parties)
    _curves(right, [p.d for p in bench.by_length], bench.by_length)
    # One encryption a coordinate and, at the lead, 2/7 for its decryption: E by definition, not a measurement.
    right.plot(
        [p.d for p in bench.by_length], [p.d for p in bench.by_length], "k:", label="one ciphertext a coordinate"
    )
    left.set(xlabel=f"parties K (d = {bench.by_parties[0].d})", ylabel="CPU time of a round, E")
    right.set(xlabel=f"coordinates d (K = {bench.by_length[0].K})")
    for axes in (left, right):
        axes.legend(frameon=False, fontsize="small")
    with mpl.rc_context({"svg.hashsalt": "growth", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def _curves(axes: Axes, x: list[int], points: list[Point]) -> None:
    for (title, role), marker in zip(_ROLES.items(), "os^", strict=True):
        axes.loglog(x, [getattr(p.ring, role) for p in points], marker=marker, markersize=4, label=title)
    axes.grid(alpha=0.3)
