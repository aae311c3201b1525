"""``python -m masquerade_curator``: Charlie's process."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from masquerade_curator._run import run
from masquerade_host.levels import Level
from masquerade_host.process import main
from masquerade_host.progress import Mode, Progress
from masquerade_host.reporting import Reporting, reporting

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def curator(
    study: Annotated[Path, typer.Argument(help="The study's file.")],
    key: Annotated[Path, typer.Option(help="Charlie's secret keys.")],
    out: Annotated[Path | None, typer.Option(help="The directory for the results.")] = None,
    test: Annotated[Path | None, typer.Option(help="A public test set (CSV).")] = None,
    listen: Annotated[str | None, typer.Option(help="tcp://ADDRESS:PORT, if not the study's address.")] = None,
    state: Annotated[Path | None, typer.Option(help="The state folder of this machine.")] = None,
    no_journal: Annotated[bool, typer.Option("--no-journal", help="A run that dies cannot go on.")] = False,
    log_file: Annotated[Path | None, typer.Option(help="Write a log to this file, with mode 0600.")] = None,
    log_level: Annotated[Level, typer.Option(help="Minimum severity of logged events.")] = Level.INFO,
    metrics: Annotated[
        str | None, typer.Option(help="PORT or ADDRESS:PORT for /metrics (Prometheus) and /healthz.")
    ] = None,
    progress: Annotated[Mode, typer.Option(help="How to report what happens.")] = Mode.TEXT,
    debug: Annotated[bool, typer.Option(help="Show the traceback of an error; it may show data.")] = False,
) -> None:
    """Run Charlie, the curator, for one study."""
    del debug  # masquerade_host.process.main looks for it on the command line
    with reporting(Reporting(log_file, log_level, metrics), show=Progress(progress)) as observe:
        run(
            study,
            key,
            out=out,
            test=test,
            listen=listen,
            state=state,
            journal=not no_journal,
            observe=observe,
        )


if __name__ == "__main__":
    sys.exit(main(app, sys.argv[1:], "masquerade_curator"))
