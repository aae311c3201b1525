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
from masquerade_core.statistics import STATISTICS

__all__ = ["bars", "read_statistics", "statistics_report"]

_BARS = " ▁▂▃▄▅▆▇█"
_WIDTH = 32
_LEVEL_WIDTH = 24

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
    numbers = [column for column in columns if "edges" in column]
    levels = [column for column in columns if "levels" in column]
    parts: list[RenderableType] = [
        heading("Statistics", f"of about {N['estimate']:,} records; the noise on this number has a sd of {N['sd']:g}"),
        Text(
            f"  The noise on a count has a standard deviation of {statistics['noise_sd']:g}. "
            f"Counts below {statistics['threshold']:g} are not shown."
        ),
    ]
    if numbers:
        parts += [heading("Columns of numbers"), Padding(_numbers(numbers, statistics["bounds_at"]), (0, 0, 0, 2))]
    parts += [heading("Columns of levels, and the label"), Padding(_levels([*levels, label], N), (0, 0, 0, 2))]
    return tuple(parts)


def _numbers(columns: Sequence[_Column], ends: Sequence[float]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("column")
    for p in (ends[0], 0.25, 0.5, 0.75, ends[1]):
        table.add_column(f"{p:.4g}", justify="right", no_wrap=True)
    for name in ("mean", "missing", "beyond the range"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("histogram", no_wrap=True)
    table.add_column("from, to", no_wrap=True, style="dim")
    for column in columns:
        quantiles, mean, edges = list(column["quantiles"].values()) or [None] * 5, column["mean"], column["edges"]
        beyond = (column["below"] or 0) + (column["above"] or 0)
        table.add_row(
            Text(column["name"]),
            *("" if value is None else f"{value:,.4g}" for value in quantiles),
            "" if mean is None else f"{mean['estimate']:,.4g}",
            _rate(column),
            f"{beyond:,}" if beyond else "",
            Text(bars(column["counts"]), style="cyan"),
            f"{edges[0]:,.4g}, {edges[-1]:,.4g}",
        )
    return table


def _levels(columns: Sequence[_Column], N: Mapping[str, Any]) -> Table:
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
                _rate(column) if number == 0 else "",
                level,
                "" if count is None else f"{count:,}",
                Text("█" * round(_LEVEL_WIDTH * (count or 0) / max(N["estimate"], count or 0, 1)), style="cyan"),
            )
    return table


def _rate(column: _Column) -> str:
    return f"{column['missing']['rate']:.1%}"
