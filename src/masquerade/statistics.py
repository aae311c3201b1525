"""Private statistics of the columns for people: tables, and small histograms of bars."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from masquerade.report import heading
from masquerade_core.model import STATISTICS

__all__ = ["bars", "read_statistics", "statistics_report"]

_BARS = " ▁▂▃▄▅▆▇█"
_WIDTH = 24
_LEVEL_WIDTH = 24
_WHOLE = 1000
_LEFT = (0, 0, 0, 2)

_Column = Mapping[str, Any]


def read_statistics(directory: Path) -> dict[str, Any] | None:
    """Return the content of a run directory's ``statistics.json``; None where the run released none."""
    path = directory / STATISTICS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def bars(counts: Sequence[int | None], width: int = _WIDTH) -> str:
    """Return a histogram as a row of bars. A count that is not shown has no bar.

    Parameters
    ----------
    counts : sequence of int or None
        Of equal cells; if there are more than ``width``, neighbours are added up.
    """
    together = max(1, -(-len(counts) // width))
    sums = [sum(count or 0 for count in counts[i : i + together]) for i in range(0, len(counts), together)]
    tallest = max(sums, default=0)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // tallest)] if count else _BARS[0] for count in sums)


def statistics_report(statistics: Mapping[str, Any]) -> tuple[RenderableType, ...]:
    """Return the content of a ``statistics.json``."""
    N, columns, label = statistics["records"], statistics["columns"], statistics["label"]
    hidden = statistics["threshold"] / max(N["estimate"], 1)
    numbers = [column for column in columns if "edges" in column]
    levels = [column for column in columns if "levels" in column]
    parts: list[RenderableType] = [
        heading("Statistics", f"of about {N['estimate']:,} records, give or take {N['sd']:g} by the noise"),
        Text(
            f"  The noise on a count has a standard deviation of {statistics['noise_sd']:g}. "
            f"Counts below {statistics['threshold']:g} are not shown."
        ),
    ]
    if numbers:
        table = _numbers(numbers, statistics["bounds_at"], hidden)
        parts += [heading("Columns of numbers", "quantiles, each as the cell that holds it"), Padding(table, _LEFT)]
    table = _levels([*levels, label], N["estimate"], hidden)
    parts += [heading("Columns of levels, and the label"), Padding(table, _LEFT)]
    return tuple(parts)


def _numbers(columns: Sequence[_Column], ends: Sequence[float], hidden: float) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("column")
    shown = [f"{p:g}" for p in (ends[0], 0.5, ends[1])]
    for name in (*shown, "mean", "missing"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("histogram", no_wrap=True)
    for column in columns:
        mean, beyond = column["mean"], (column["below"] or 0) + (column["above"] or 0)
        outside = f" {beyond:,} beyond the range" if beyond and mean is not None else ""
        table.add_row(
            Text(column["name"]),
            *(_cell(column["quantiles"].get(p)) for p in shown),
            "" if mean is None else f"{_number(mean['estimate'])} ±{_number(mean['sd'] + mean['bins'])}",
            _rate(column, hidden),
            Text.assemble((bars(column["counts"]), "cyan"), (outside, "yellow")),
        )
    return table


def _levels(columns: Sequence[_Column], records: float, hidden: float) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("column")
    table.add_column("missing", justify="right", no_wrap=True)
    table.add_column("level")
    table.add_column("records", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for column in columns:
        rows: list[tuple[Text, int | None]] = [(Text(level), count) for level, count in column["levels"].items()]
        rare = f" ({len(column['rare'])} rare levels among them)" if column["rare"] else ""
        if rare or column["other"] is not None or not rows:
            rows.append((Text(f"all others{rare}", style="dim"), column["other"]))
        for number, (level, count) in enumerate(rows):
            table.add_row(
                Text(column["name"]) if number == 0 else "",
                _rate(column, hidden) if number == 0 else "",
                level,
                "" if count is None else f"{count:,}",
                Text("█" * round(_LEVEL_WIDTH * (count or 0) / max(records, count or 0, 1)), style="cyan"),
            )
    return table


def _rate(column: _Column, hidden: float) -> str:
    """Return a column's rate of missing cells; a rate that may be noise alone is only bounded."""
    rate = column["missing"]["rate"]
    return f"{rate:.1%}" if rate >= hidden else f"< {hidden:.1%}"


def _cell(edges: Sequence[float | None] | None) -> str:
    """Return the cell that holds a quantile, which is known no better than that."""
    if edges is None:
        return ""
    low, high = ("" if edge is None else _number(edge) for edge in edges)
    return f"{low}-{high}" if low and high else f"< {high}" if high else f">= {low}"


def _number(value: float) -> str:
    """Return three digits of a number, as in 12.5, 62.5k or 2M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"
