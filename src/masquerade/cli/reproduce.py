"""``masquerade reproduce``: makes a paper's figure again, with a verdict on every number."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

if TYPE_CHECKING:
    from rich.console import RenderableType

    from masquerade.reproduce import Report, Row

__all__ = ["reproduce"]


def reproduce(
    paper: Annotated[
        str,
        typer.Argument(
            help="pathak-2010, rajkumar-2012, kang, hamm-2016 or bixler; docs/reproduction.md names two more.",
            show_default=False,
        ),
    ],
    figure: Annotated[
        str | None,
        typer.Argument(help="The figure's number in the paper. The first one here if not given.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The directory with the original data files.", show_default=False)
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="How often noise is drawn for each data set. The bands of expected values fit the default.", min=1
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of simulated data and noise.")] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Make a paper's figure again. The exit code is 1 if a number lies outside its band of expected values."""
    from masquerade.console import progress_bar
    from masquerade.reproduce import reproduce as reproduced

    with progress_bar(disable=output_format is Format.JSON) as bar:
        bar.add_task(paper, total=None)
        report = reproduced(paper, figure, data=data, draws=draws, seed=seed)
    asked = sum(row.banded for row in report.rows)
    failed = len(report.failed)
    return Outcome(
        f"{failed} of {asked} numbers lie outside their bands: {report.failed[0].name}"
        if failed
        else f"all {asked} numbers lie within their bands",
        report.to_json(),
        shown=_shown(report, asked),
        error_code="run_failed" if failed else None,
        exit_code=1 if failed else 0,
    )


def _shown(report: "Report", asked: int) -> "list[RenderableType]":
    from rich.text import Text

    settings = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in report.settings.items())
    parts: list[RenderableType] = [Text(f"\n{report.paper}, figure {report.figure}: {settings}", style="bold")]
    parts += [Text(note, style="dim") for note in report.notes]
    for name, rows in report.tables().items():
        parts += [Text(f"\n{name}", style="bold"), _table(rows)]
    if not report.failed:
        parts.append(Text(f"\nall {asked} numbers lie within their bands", style="bold green"))
    return parts


def _table(rows: "tuple[Row, ...]") -> "RenderableType":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, right in (("", False), ("reached", True), ("error", True), ("band", False), ("", False)):
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    table.add_column("")
    for row in rows:
        verdict = Text(row.verdict, style="" if not row.banded else "green" if row.holds else "bold red")
        table.add_row(row.name, f"{row.value:.4f}", row.shown_error, row.band, verdict, row.note)
    return table
