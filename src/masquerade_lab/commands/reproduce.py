"""``masquerade reproduce``: makes a paper's figure again, with a verdict on every number."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from masquerade_lab.reproduce import Report, Row

__all__ = ["reproduce"]


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(help="Without one, the command lists all papers, and what each needs.", show_default=False),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Argument(help="The figure's number in the paper. The first one here if not given.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The directory with the original data files.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder for tables and pictures; by default one here, named after the paper and the figure.",
            show_default=False,
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="How often noise is drawn for each data set. The bands of expected values fit the default.", min=1
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of simulated data and noise.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes of this machine share the work.")] = 1,
    dask: Annotated[
        str | None,
        typer.Option(help="The address of a Dask scheduler, whose workers share the work.", show_default=False),
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Make a paper's figure again. The exit code is 1 if a number lies outside its band of expected values.

    A planted mistake must lie outside the band, or the exit code is 1 as well, unless fewer draws were asked for.
    A command that was stopped goes on where it was when it is given again.
    """
    from masquerade_lab.commands.listing import figures, refuse_options

    if paper is None:
        refuse_options(data=data, out=out, draws=draws, seed=seed, dask=dask)
        return figures()
    from masquerade.workers import check_workers
    from masquerade_lab.commands.progress import told
    from masquerade_lab.reproduce.engine.files import Folder
    from masquerade_lab.reproduce.engine.tasks import Runner
    from masquerade_lab.reproduce.papers import asked_for

    asked = asked_for(paper, figure, data=data, draws=draws, seed=seed)
    options = {"draws": asked.draws, "seed": asked.seed}
    folder = Folder(out or Path(asked.folder), asked.paper, asked.name, options)
    folder.check()
    check_workers(jobs, dask)
    kept = folder.kept
    with told(f"{asked.paper} {asked.name}", silent=output_format is Format.JSON) as tell:
        report = asked.run(Runner(jobs, dask, kept, tell))
    files = folder.write(report)
    kept.remove()
    banded = len(report.checked)
    failed = [row for row in report.failed if not (row.broken and asked.few_draws)]
    said = (
        f"{len(failed)} of {banded} numbers are not where they must be, the first of them '{failed[0].name}' in the "
        f"table '{failed[0].table}'"
        if failed
        else f"all {banded} numbers are where they must be"
    )
    missed = len(report.failed) - len(failed)
    if missed:
        said += f"; {missed} planted mistakes were not caught, which takes {asked.figure.draws} draws"
    return Outcome(
        said,
        {**report.to_json(), "files": [str(path) for path in files]},
        shown=[*_shown(report), *([] if failed else [_fine(said)]), *_written(report, files)],
        error_code="run_failed" if failed else None,
        exit_code=1 if failed else 0,
    )


def _written(report: "Report", files: "Sequence[Path]") -> "list[RenderableType]":
    """Say where the files are, and why there is no picture."""
    from rich.text import Text

    names = ", ".join(path.name for path in files)
    parts: list[RenderableType] = [Text(f"\nwritten to {files[0].parent}: {names}")]
    if report.panels and not any(path.suffix == ".png" for path in files):
        parts.append(Text("no picture, since matplotlib is not installed: 'pip install masquerade[plots]' brings it"))
    return parts


def _fine(said: str) -> "RenderableType":
    from rich.text import Text

    return Text(f"\n{said}", style="bold green")


def _shown(report: "Report") -> "list[RenderableType]":
    from rich.text import Text

    settings = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in report.settings.items())
    parts: list[RenderableType] = [Text(f"\n{report.paper}, figure {report.figure}: {settings}", style="bold")]
    parts += [Text(note, style="dim") for note in report.notes]
    for name, rows in report.tables().items():
        parts += [Text(f"\n{name}", style="bold"), _table(rows)]
    if report.theorems:
        parts += [Text("\ntheorems: the paper's bound beside what was measured", style="bold"), _theorems(report)]
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
        table.add_row(row.name, row.shown, row.shown_error, row.band, verdict, row.note)
    return table


def _theorems(report: "Report") -> "RenderableType":
    from rich import box
    from rich.table import Table

    from masquerade_lab.reproduce.engine.report import QUANTILE

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in ("bound", "measured", "error", QUANTILE, "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in report.theorems:
        numbers = (one.bound, one.mean, one.error, one.quantile)
        ratio = "" if one.ratio is None else f"{one.ratio:,.2g}" if one.ratio < 10 else f"{one.ratio:,.0f}"  # noqa: PLR2004
        table.add_row(one.name, *(f"{x:.3g}" for x in numbers), ratio)
    return table
