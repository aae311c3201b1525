"""Claim, proof and audit as a picture.

Only this module draws, so matplotlib is an extra (``plots``). The module can be imported without it.
"""

from collections.abc import Sequence
from pathlib import Path

from masquerade_lab.audit.audit import Finding, Gate
from masquerade_lab.reproduce.engine.drawing import require_matplotlib

__all__ = ["plot"]

_COLOURS = {Gate.REFUTED: "#b2182b", Gate.CAUGHT: "#ef8a62", Gate.HOLDS: "#2166ac"}
_WORDS = {
    Gate.REFUTED: "audits of papers' claims, together at 95 %",
    Gate.CAUGHT: "audits of known bugs, together at 95 %",
    Gate.HOLDS: "audits of proofs, together at 99.9 %",
}
_FLOOR = 0.01  # where an axis of logarithms begins: a bound of 0 is drawn there


def plot(findings: Sequence[Finding], path: Path) -> None:
    """Draw, for each audit, epsilon as claimed, as proved, and the audit's lower bound, as SVG.

    Raises
    ------
    BadInput
        If matplotlib is not installed.
    """
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.2 + 0.32 * len(findings)), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    places = range(len(findings), 0, -1)
    for gate, colour in _COLOURS.items():
        rows = [(y, max(f.bound, _FLOOR)) for y, f in zip(places, findings, strict=True) if f.audit.gate is gate]
        if rows:
            heights, widths = zip(*rows, strict=True)
            axes.barh(heights, [w - _FLOOR for w in widths], 0.5, _FLOOR, color=colour, label=_WORDS[gate])
    claimed = [f.audit.epsilon for f in findings]
    axes.plot(
        claimed, places, "k|", markersize=12, markeredgewidth=2, linestyle="", label="claimed, or the privacy target"
    )
    proved = [(f.audit.proved, y) for y, f in zip(places, findings, strict=True) if f.audit.proved]
    axes.plot(*zip(*proved, strict=True), "kd", markersize=5, fillstyle="none", linestyle="", label="proved")
    less = [(f.control, y) for y, f in zip(places, findings, strict=True) if f.control]
    if less:
        axes.plot(
            *zip(*less, strict=True), "x", color="#2166ac", linestyle="", label="the same audit with half of the noise"
        )
    axes.set_xscale("log")
    axes.set(xlim=(_FLOOR, None), ylim=(0.3, len(findings) + 0.7), xlabel="epsilon")
    axes.set_yticks(places, [f.audit.name for f in findings])
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    with mpl.rc_context({"svg.hashsalt": "audits", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
