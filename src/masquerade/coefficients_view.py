"""Regression coefficients for people: the table in a terminal, as R and statsmodels print it."""

import json
from collections.abc import Iterator
from pathlib import Path

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from masquerade.report import heading
from masquerade_core.coefficients import LEVEL, Coefficient, Coefficients
from masquerade_core.saved_model import model_from_json

__all__ = ["coefficients_report", "read_coefficients"]

_LEFT = (0, 0, 0, 2)


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
    logistic = found.family == "logistic"
    interval = f"{LEVEL:.0%} interval".replace("%", " %")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    heads = ("coef", "std err", interval, *(("odds ratio", interval) if logistic else ()), "of the width, noise")
    for name in heads:
        table.add_column(name, justify="right", no_wrap=True)
    for row in found.rows:
        if row.told:
            table.add_row(Text(row.name), *_numbers(row, logistic=logistic))
    said = f"{found.family} regression on {found.records:,} records"
    hidden = [row for row in found.rows if not row.told]
    return (
        heading("Coefficients", said),
        *([Padding(table, _LEFT)] if found.told else []),
        *(Text(f"  {row.name}: cannot tell: {row.reason}", style="dim") for row in hidden),
        Padding(
            Text(
                f"About {100 * found.weighted_down:.1f} % of the records counted less than fully. In "
                f"{100 * LEVEL:.0f} of 100 runs an interval covers its coefficient, the noise counted."
            ),
            (1, 0, 0, 2),
        ),
    )


def _numbers(row: Coefficient, *, logistic: bool) -> Iterator[str]:
    yield _shown(row.estimate)
    yield _shown(row.se)
    yield f"{_shown(row.low)} to {_shown(row.high)}"
    if logistic:
        yield _shown(row.odds)
        yield f"{_shown(row.odds_low)} to {_shown(row.odds_high)}"
    yield f"{100 * (row.privacy_share or 0):.0f} %"


def _shown(value: float | None) -> str:
    """Return a number with four significant digits."""
    return "" if value is None else f"{value:.4g}"
