"""Regression coefficients for people: the table in a terminal, as R and statsmodels print it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from masquerade.report import heading
from masquerade_core.coefficients import LEVEL, Coefficient, Coefficients
from masquerade_core.saved_model import model_from_json

__all__ = ["coefficients_report", "read_coefficients"]

_LEFT = (0, 0, 0, 2)
_ANY_WIDTH = 1_000


def read_coefficients(directory: Path) -> Coefficients | None:
    """Return the coefficients of a run's ``model.json``; None where the run released none."""
    path = directory / "model.json"
    if not path.exists():
        return None
    return model_from_json(json.loads(path.read_text(encoding="utf-8"))).coefficients


def coefficients_report(found: Coefficients) -> tuple[RenderableType, ...]:
    """Return the table of a regression. It has no p-value and no stars: an interval says more, and is what is proved.

    A coefficient that cannot be told has its reason in the place of numbers.
    """
    said = f"{found.family} regression on {found.records:,} records"
    hidden = [row for row in found.rows if not row.told]
    return (
        heading("Coefficients", said),
        *([Padding(_Whole(found), _LEFT)] if found.told else []),
        *(Text(f"  {row.name}: cannot tell: {row.reason}", style="dim") for row in hidden),
        Padding(
            Text(
                f"About {100 * found.weighted_down:.1f} % of the records counted less than fully. In "
                f"{100 * LEVEL:.0f} of 100 runs an interval covers its coefficient, the noise counted."
            ),
            (1, 0, 0, 2),
        ),
    )


@dataclass(frozen=True)
class _Whole:
    """The table with every number whole: in one piece, or odds ratios in a table of their own where a line is short."""

    found: Coefficients

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        interval = f"{LEVEL:.0%} interval".replace("%", " %")
        slopes = [("coef", _estimate), ("std err", _se), (interval, _interval)]
        odds = [("odds ratio", _odds), (interval, _odds_interval)] if self.found.family == "logistic" else []
        noise = [("of the width, noise", _noise)]
        table = self._table([*slopes, *odds, *noise])
        needed = Measurement.get(console, options.update(max_width=_ANY_WIDTH), table).maximum
        if needed <= options.max_width or not odds:
            yield table
        else:
            yield self._table([*slopes, *noise])
            yield Text()
            yield self._table(odds)

    def _table(self, columns: Sequence[tuple[str, Callable[[Coefficient], str]]]) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("", overflow="fold")
        for name, _ in columns:
            table.add_column(name, justify="right", no_wrap=True)
        for row in self.found.told:
            table.add_row(Text(row.name), *(of(row) for _, of in columns))
        return table


def _estimate(row: Coefficient) -> str:
    return _shown(row.estimate)


def _se(row: Coefficient) -> str:
    return _shown(row.se)


def _interval(row: Coefficient) -> str:
    return f"{_shown(row.low)} to {_shown(row.high)}"


def _odds(row: Coefficient) -> str:
    return _shown(row.odds)


def _odds_interval(row: Coefficient) -> str:
    return f"{_shown(row.odds_low)} to {_shown(row.odds_high)}"


def _noise(row: Coefficient) -> str:
    return f"{100 * (row.privacy_share or 0):.0f} %"


def _shown(value: float | None) -> str:
    """Return a number with four significant digits."""
    return "" if value is None else f"{value:.4g}"
