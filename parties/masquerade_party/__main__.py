"""``python -m masquerade_party``: a data owner's process."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from masquerade_core.special import load_bare
from masquerade_host.levels import Level
from masquerade_host.process import main
from masquerade_host.progress import Mode, Progress
from masquerade_host.reporting import Reporting, reporting
from masquerade_party._run import run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def party(
    study: Annotated[Path, typer.Argument(help="The study's file.")],
    data: Annotated[str, typer.Option(help="Your records: a file, a folder of Parquet files, or a query.")],
    key: Annotated[Path, typer.Option(help="Your secret keys.")],
    classifier: Annotated[
        str | None, typer.Option(help="The classifier you vote with, in a protocol of votes.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The directory for the results.")] = None,
    approved: Annotated[
        bool, typer.Option("--approved", help="Do not ask: 'masquerade approve' has recorded a person's yes.")
    ] = False,
    state: Annotated[Path | None, typer.Option(help="The state folder, if it is not the usual one.")] = None,
    population: Annotated[str | None, typer.Option(help="On whose privacy budget the run counts.")] = None,
    proxy: Annotated[
        str | None,
        typer.Option(
            help="The way out: http://HOST:PORT or socks5://HOST:PORT. No other variable is read.",
            envvar="MASQUERADE_PROXY",
        ),
    ] = None,
    stream: Annotated[
        Path | None, typer.Option(help="Keep the records in a scratch file in this folder, and not in memory.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="The site's own Dask scheduler; its workers read and hold the records.")
    ] = None,
    no_journal: Annotated[bool, typer.Option("--no-journal", help="A run that dies cannot go on.")] = False,
    log_file: Annotated[Path | None, typer.Option(help="Write a log to this file, with mode 0600.")] = None,
    log_level: Annotated[Level, typer.Option(help="Minimum severity of logged events.")] = Level.INFO,
    metrics: Annotated[
        str | None, typer.Option(help="PORT or ADDRESS:PORT for /metrics (Prometheus) and /healthz.")
    ] = None,
    progress: Annotated[Mode, typer.Option(help="How to report what happens.")] = Mode.TEXT,
    debug: Annotated[bool, typer.Option(help="Show the traceback of an error; it may show data.")] = False,
) -> None:
    """Take part in one study with your records."""
    del debug  # masquerade_host.process.main looks for it on the command line
    with reporting(Reporting(log_file, log_level, metrics), show=Progress(progress)) as observe:
        run(
            study,
            data,
            key,
            classifier=classifier,
            out=out,
            state=state,
            population=population,
            approved=approved,
            proxy=proxy,
            journal=not no_journal,
            stream=stream,
            dask=dask,
            observe=observe,
        )


if __name__ == "__main__":
    load_bare()
    sys.exit(main(app, sys.argv[1:], "masquerade_party"))
