"""A figure's files: its numbers and curves as CSV, everything as JSON, and its panels as PNG and SVG."""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade.simulation import WATERMARK
from masquerade_core import __version__
from masquerade_core.errors import BadInput
from masquerade_lab.reproduce.bands import Report
from masquerade_lab.reproduce.drawing import can_draw, draw
from masquerade_lab.reproduce.kept import Kept

__all__ = ["TASKS", "Folder", "curves_csv", "numbers_csv"]

TASKS = ".tasks"
"""The folder in which results of tasks are kept until the figure is whole."""

_NUMBERS = ("table", "name", "value", "error", "low", "high", "verdict", "note")
_CURVES = ("panel", "kind", "series", "x", "y", "error")


@dataclass(frozen=True)
class Folder:
    """Where a figure's files go.

    Parameters
    ----------
    path : Path
    paper, figure : str
    asked : dict
        The draws, the seed and what else was asked for.
    """

    path: Path
    paper: str
    figure: str
    asked: dict[str, Any]

    @property
    def kept(self) -> Kept:
        """Where results of tasks are kept until the figure is whole."""
        return Kept(self.path / TASKS, (self.paper, self.figure, *sorted(self.asked.items())))

    def check(self) -> bool:
        """Check that no file would be lost, before anything is computed; return whether this figure's are replaced.

        Raises
        ------
        BadInput
            The folder is none, or has files under the same names that hold something else.
        """
        if self.path.exists() and not self.path.is_dir():
            raise BadInput(f"{self.path} is not a folder", "name another place with --out")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"the folder {self.path} cannot be made", "name another place with --out") from error
        there = [path for path in self._all() if path.exists()]
        if there and self._made() != self._head():
            raise BadInput(
                f"{there[0]} is there already, and was not made by this same command",
                "name another folder with --out, or move the file away",
            )
        return bool(there)

    def write(self, report: Report) -> list[Path]:
        """Write the files, and return their paths; without matplotlib there is no picture."""
        numbers, curves, values, *pictures = self._all()
        numbers.write_text(numbers_csv(report), encoding="utf-8", newline="")
        written = [numbers]
        if report.panels:
            curves.write_text(curves_csv(report), encoding="utf-8", newline="")
            written.append(curves)
            if can_draw():
                title = f"{report.paper}, figure {report.figure}"
                draw(report.panels, title, f"masquerade {__version__}; {WATERMARK}", pictures)
                written += pictures
        content = {**report.to_json(), **self._head(), "version": __version__, "watermark": WATERMARK}
        values.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return [*written, values]

    def _all(self) -> list[Path]:
        stem = f"{self.paper}-{self.figure}"
        return [self.path / f"{stem}{ending}" for ending in (".csv", "-curves.csv", ".json", ".png", ".svg")]

    def _head(self) -> dict[str, Any]:
        return {"paper": self.paper, "figure": self.figure, "asked": self.asked}

    def _made(self) -> dict[str, Any] | None:
        """Return what made the files that are there; None if that is not known."""
        try:
            found = json.loads(self._all()[2].read_text(encoding="utf-8"))
            return {name: found.get(name) for name in self._head()}
        except (OSError, ValueError, AttributeError):
            return None


def numbers_csv(report: Report) -> str:
    """Return the rows of a report, and what bounds were measured against, as CSV; numbers have all their digits."""
    rows = (*report.rows, *(row for row in report.checked if row not in report.rows))
    return _csv(
        _NUMBERS,
        ((r.table, r.name, _exact(r.value), *map(_exact, (r.error, r.low, r.high)), r.verdict, r.note) for r in rows),
    )


def curves_csv(report: Report) -> str:
    """Return the points of a report's panels as CSV.

    Their kind is "computed", "claimed" for the paper's own words, or "level" for a line to compare with.
    """
    rows = []
    for panel in report.panels:
        for series in panel.series:
            kind = "claimed" if series.claimed else "computed"
            for k, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
                error = None if series.error is None else series.error[k]
                rows.append((panel.title, kind, series.name, _exact(x), _exact(y), _exact(error)))
        rows += [(panel.title, "level", name, "", _exact(level), "") for name, level in panel.reference]
    return _csv(_CURVES, rows)


def _csv(heading: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return text.getvalue()


def _exact(value: float | None) -> str:
    return "" if value is None else repr(float(value))
