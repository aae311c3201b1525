"""The list of all papers and figures that ``masquerade reproduce`` makes."""

from typing import TYPE_CHECKING, Any

from masquerade.cli.output import Outcome

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["figures", "in_words", "refuse_options"]

_MINUTE, _HOUR = 60.0, 3600.0


def refuse_options(**options: object) -> None:
    """Refuse options that choose something of a figure where no paper was named.

    Raises
    ------
    BadInput
        One of them was given.
    """
    from masquerade_core.errors import BadInput

    given = [f"--{name}" for name, value in options.items() if value is not None]
    if given:
        raise BadInput(
            f"{given[0]} was given, but no paper", "name a paper; without any option, this command lists them all"
        )


def figures() -> Outcome:
    """Return the list, with what each figure needs and how long it takes."""
    from masquerade_lab.reproduce.papers import MEASURED, PAPERS

    rows: list[dict[str, Any]] = [
        {
            "paper": paper,
            "figure": name,
            "title": figure.title,
            "data": figure.needs or (f"none, or {figure.optional}" if figure.optional else ""),
            "where": figure.where,
            "seconds_on_two_cores": figure.seconds,
        }
        for paper, named in PAPERS.items()
        for name, figure in named.items()
    ]
    return Outcome(
        f"{len(rows)} figures",
        {"figures": rows, "measured": MEASURED},
        shown=[_table(rows), MEASURED],
        hint="masquerade reproduce PAPER FIGURE --jobs 2, with --data DIRECTORY where the figure needs data",
    )


def _table(rows: list[dict[str, Any]]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("paper", "figure", "what it shows", "data it needs, and where they are", "time"):
        table.add_column(heading, no_wrap=heading in ("paper", "time"), overflow="fold")
    for row in rows:
        data = f"{row['data']}: {row['where']}" if row["where"] else row["data"] or "none"
        table.add_row(row["paper"], row["figure"], row["title"], data, in_words(row["seconds_on_two_cores"]))
    return table


def in_words(seconds: float | None) -> str:
    """Return a time as it is said; empty if there is none."""
    if seconds is None:
        return ""
    if seconds < _MINUTE:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / _MINUTE)} min" if seconds < _HOUR else f"{seconds / _HOUR:.1f} h"
