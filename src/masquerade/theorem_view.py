"""A paper's theorems as a table for people, and what each of them needs."""

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from masquerade.layout import heading, paragraphs
from masquerade_core.learning.theorems import FAILURE, Theorem
from masquerade_core.study import Study

__all__ = ["shown"]

_NONE = "none"
"""Where the paper's conditions do not hold, or nothing is proved."""


def shown(found: Sequence[Theorem], paper: str, study: Study) -> tuple[RenderableType, ...]:
    """Return the theorems' table, a sentence on those that are vacuous, and what each needs."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="dim", show_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("what is bounded", max_width=44)
    for name in ("the paper's", "proved", "ratio", "zeros"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        style = "yellow" if one.vacuous else ""
        table.add_row(
            one.name, one.bounds, Text(_number(one.paper), style), *map(_number, (one.proved, one.ratio, one.zeros))
        )
    fewest = f"{study.K} parties with {study.study.min_records:,} records each, the fewest that may take part"
    notes = [f"{one.name}: {one.note}" for one in found if one.note]
    return (
        heading(paper, fewest),
        Padding(table, (0, 0, 0, 1)),
        Padding(Text(_READ), (1, 0, 0, 2)),
        Padding(Text(_verdict(found)), (1, 0, 0, 2)),
        *([heading("What each needs"), paragraphs(notes)] if notes else []),
    )


_READ = (
    f"Each bound holds with probability {1 - FAILURE:g}, unless something else is said. 'Proved' is what is proved "
    "here of the same quantity, for this study and any records. 'Zeros' is what is proved of the model of zeros, "
    "which reads no record. The ratio is the paper's bound over the proved one; below 1, the paper's is not proved "
    "here."
)


def _verdict(found: Sequence[Theorem]) -> str:
    vacuous = [one.name for one in found if one.vacuous]
    if not vacuous:
        return "No bound of the paper is vacuous here."
    return (
        f"Vacuous here, since the model of zeros is as good as the bound: {', '.join(vacuous)}. More records, a "
        "larger epsilon or a larger regularization make a bound smaller."
    )


def _number(x: float | None) -> str:
    return _NONE if x is None else f"{x:.3g}"
