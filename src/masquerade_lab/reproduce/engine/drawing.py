"""A figure's panels as PNG and SVG.

Colours are those of Okabe and Ito, which people with colour blindness tell apart. Each series also has a marker and a
line of its own, so that a print in grey is readable. What the paper claims has hollow markers and dashed lines. Only
this module draws, so matplotlib is an extra (``plots``). The module can be imported without it.
"""

import importlib.util
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from masquerade_core.errors import BadInput
from masquerade_lab.reproduce.engine.report import Panel, Series

__all__ = ["can_draw", "draw", "require_matplotlib"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
_MARKERS = "osD^vPX<>*hd"
_LINES = ("-", (0, (6, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (6, 1, 1, 1, 1, 1)))
_CLAIMED = (0, (4, 2.5))
_LEVELS = ((0, (1, 3)), (0, (8, 3)), (0, (2, 2, 6, 2)))
_GREY = "#595959"
_COLUMNS = 3
_WIDTH, _HEIGHT = 3.7, 3.0  # inches of a panel
_LEGEND_ROW, _HANDLE, _LETTER = 0.21, 0.6, 0.065  # inches
_DOTS_PER_INCH = 150
_POINTS = 9

_DARK = """\
@media (prefers-color-scheme: dark) {
text { fill:#e6e6e6 }
[style*="fill:#ffffff"] { fill:#15191d !important }
[style*="fill:#000000"] { fill:#e6e6e6 !important }
[style*="stroke:#000000"] { stroke:#e6e6e6 !important }
[style*="stroke:#595959"] { stroke:#b0b0b0 !important }
[style*="fill:#0072b2"] { fill:#8f9dff !important }
[style*="stroke:#0072b2"] { stroke:#8f9dff !important }
[style*="stroke:#cccccc"] { stroke:#444a50 !important }
}
"""
"""The look for a viewer who prefers dark pages: one file has both looks, without a script or a second file."""

_Look = tuple[str, str, Any]
"""Colour, marker and line."""


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def require_matplotlib() -> None:
    """Check that matplotlib is installed; a caller asks before it spends minutes on the data of a picture.

    Raises
    ------
    BadInput
        It is not.
    """
    if not can_draw():
        raise BadInput(
            "a picture needs matplotlib, which is not installed", "install it with 'pip install masquerade[plots]'"
        )


def draw(panels: Sequence[Panel], title: str, watermark: str, paths: Sequence[Path]) -> None:
    """Draw all panels into one picture, and write it once for each path: as SVG or PNG, which its ending says.

    An SVG is light, and dark where its viewer prefers dark pages.

    Parameters
    ----------
    panels : sequence of Panel
    title, watermark : str
        They stand above.
    paths : sequence of path

    Raises
    ------
    BadInput
        Matplotlib is not installed.
    """
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, math.ceil(math.sqrt(len(panels))))
    rows = math.ceil(len(panels) / columns)
    legends = _legends(panels)
    width, lines = max(_WIDTH * columns, 5.0), max(len(names) for names in legends)
    beside = _beside(width if len(legends) == 1 else width / columns, legends)
    beneath, inside = (math.ceil(lines / beside) * _LEGEND_ROW * share for share in _shares(len(legends)))
    levels = {name for panel in panels for name, _ in panel.reference}
    settings: Any = {
        "font.size": _POINTS,
        "font.sans-serif": ["DejaVu Sans"],
        "svg.hashsalt": title,
        "svg.fonttype": "none",
        "axes.titlesize": _POINTS + 1,
    }
    with mpl.rc_context(settings):
        size = (width, (_HEIGHT + inside) * rows + 0.6 + beneath)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(f"{title}\n{watermark}", fontsize=_POINTS)
        places = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes, panel, looks in zip(places, panels, _looks(panels), strict=False):
            _panel(axes, panel, looks)
            if len(legends) > 1:
                place: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2)}
                axes.legend(*_together([axes], levels), ncols=beside, frameon=False, fontsize=_POINTS - 2, **place)
        for axes in places[len(panels) :]:
            axes.set_axis_off()
        if len(legends) == 1:
            handles, names = _together(places[: len(panels)], levels)
            figure.legend(handles, names, loc="outside lower center", ncols=beside, frameon=False, fontsize=_POINTS - 1)
        for path in paths:
            vector = path.suffix == ".svg"
            said = {"Date": None, "Description": watermark} if vector else {"Description": watermark}
            figure.savefig(path, format=path.suffix[1:], dpi=_DOTS_PER_INCH, metadata=said)
            if vector:
                _finish(path)


def _finish(path: Path) -> None:
    """Give an SVG a second look for dark pages, and leave out spaces and digits that nobody sees."""
    drawn = re.sub(r"\s*\n\s*", " ", path.read_text(encoding="utf-8")).replace("> <", "><")
    drawn = re.sub(
        r'="[^"]*"', lambda found: re.sub(r"(\d\.\d)\d+", r"\1", found[0]).replace(": ", ":").replace(' "', '"'), drawn
    )
    drawn = re.sub(r"<!DOCTYPE[^>]*>", "", drawn).replace("; ", ";")
    drawn = re.sub(r' id="(?![mp][0-9a-f]{10}")[^"]*"', "", drawn)
    drawn = _styled_once(drawn)
    drawn = re.sub(r' transform="rotate\(-0 [^"]*"', "", drawn)
    drawn = re.sub(r"(</?g>)+", lambda found: found[0].replace("<g></g>", ""), drawn)
    drawn = re.sub(r"<metadata>.*</cc:Work></rdf:RDF></metadata>", _said, drawn)
    path.write_text(
        drawn.replace('<style type="text/css">', f'<style type="text/css">{_DARK}', 1), encoding="utf-8", newline=""
    )


def _styled_once(drawn: str) -> str:
    """Give a marker's style to its definition, where all of its repetitions have the same, and not to each of them."""
    styles: dict[str, set[str]] = {}
    for marker, style in re.findall(r'<use xlink:href="#(\w+)"[^>]*? style="([^"]*)"', drawn):
        styles.setdefault(marker, set()).add(style)
    for marker, found in styles.items():
        if len(found) == 1:
            drawn = re.sub(rf'(<path id="{marker}"[^>]*?) style="[^"]*"', rf'\1 style="{found.pop()}"', drawn)
            drawn = re.sub(rf'(<use xlink:href="#{marker}"[^>]*?) style="[^"]*"', r"\1", drawn)
    return drawn


def _said(found: re.Match[str]) -> str:
    """Keep the description alone: it says that nothing here is private."""
    description = re.search(r"<dc:description>(.*?)</dc:description>", found[0])
    return f"<desc>{description[1]}</desc>" if description else ""


def _names(panel: Panel) -> list[str]:
    return [_label(series) for series in panel.series] + [name for name, _ in panel.reference]


def _label(series: Series) -> str:
    return f"{series.name} (claimed)" if series.claimed else series.name


def _legends(panels: Sequence[Panel]) -> list[list[str]]:
    """Return the names of one legend for all panels where they share their series, or those of each panel."""
    everywhere = list(dict.fromkeys(name for panel in panels for name in _names(panel)))
    each = [_names(panel) for panel in panels]
    return [everywhere] if len(everywhere) <= max(map(len, each)) + 2 else each


def _beside(width: float, legends: Sequence[Sequence[str]]) -> int:
    """Return how many of a legend's entries stand side by side in so many inches."""
    longest = max(len(name) for names in legends for name in names)
    return max(1, int(width / (_HANDLE + _LETTER * longest)))


def _shares(legends: int) -> tuple[int, int]:
    """Return whether the height of a legend belongs beneath all panels, and whether beneath each."""
    return (1, 0) if legends == 1 else (0, 1)


def _looks(panels: Sequence[Panel]) -> list[dict[str, _Look]]:
    """Return each series' look in each panel: the same in all panels, unless there are more names than colours.

    A claim about a series has its colour and marker.
    """
    each = [[series.name for series in panel.series] for panel in panels]
    everywhere = list(dict.fromkeys(name for names in each for name in names))
    shared = len(everywhere) <= len(_COLOURS)
    return [_looks_of(everywhere if shared else list(dict.fromkeys(names))) for names in each]


def _looks_of(names: Sequence[str]) -> dict[str, _Look]:
    return {
        name: (_COLOURS[n % len(_COLOURS)], _MARKERS[n % len(_MARKERS)], _LINES[n % len(_LINES)])
        for n, name in enumerate(names)
    }


def _panel(axes: Any, panel: Panel, looks: dict[str, _Look]) -> None:
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        """Shows 0.1 as 0.1, where matplotlib chooses to show a number at all."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    axes.set_xscale(panel.x_scale)
    axes.set_yscale(panel.y_scale)
    for axis, scale in ((axes.xaxis, panel.x_scale), (axes.yaxis, panel.y_scale)):
        if scale == "log":
            axis.set_major_formatter(Plain())
            axis.set_minor_formatter(Plain(minor_thresholds=(2, 0.5)))
    for k, (name, level) in enumerate(panel.reference):
        axes.axhline(level, color=_GREY, linewidth=1.0, linestyle=_LEVELS[k % len(_LEVELS)], label=name, zorder=1)
    for series in panel.series:
        colour, marker, line = looks[series.name]
        points = [
            (x, y, 0.0 if series.error is None else series.error[k])
            for k, (x, y) in enumerate(zip(series.x, series.y, strict=True))
            if _drawable(x, panel.x_scale) and _drawable(y, panel.y_scale)
        ]
        if not points:
            continue
        xs, ys, errors = zip(*points, strict=True)
        axes.errorbar(
            xs,
            ys,
            yerr=errors if any(errors) else None,
            label=_label(series),
            color=colour,
            marker=marker,
            markersize=5.5 if series.claimed else 4.0,
            markerfacecolor="none" if series.claimed else colour,
            linestyle=_CLAIMED if series.claimed else line,
            linewidth=1.0 if series.claimed else 1.3,
            elinewidth=0.8,
            zorder=3 if series.claimed else 2,
        )
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.grid(alpha=0.25, linewidth=0.6)


def _drawable(value: float, scale: str) -> bool:
    return math.isfinite(value) and (scale == "linear" or value > 0)


def _together(places: Sequence[Any], levels: set[str]) -> tuple[list[Any], list[str]]:
    """Return each name's line in the first panel that has it; levels come last."""
    found: dict[str, Any] = {}
    for axes in places:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    last = [name for name in found if name in levels]
    names = [name for name in found if name not in levels] + last
    return [found[name] for name in names], names
