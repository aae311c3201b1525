"""``masquerade curator`` and ``masquerade party``: the two processes."""

import json
from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.approve import PopulationOption, StateOption, StreamOption
from masquerade.cli.doctor import ProxyOption
from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade.cli.study import StudyArgument
from masquerade.cli.watching import LogFileOption, LogLevelOption, MetricsOption
from masquerade_host.levels import Level

__all__ = ["curator", "party"]

KeyOption = Annotated[Path, typer.Option("--key", help="Your secret keys ('masquerade keys new').", show_default=False)]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="A new directory for the results. One under runs/ if not given.", show_default=False),
]
NoJournalOption = Annotated[
    bool,
    typer.Option(
        "--no-journal", help="Keep nothing on disk for a restart: if this process dies, the run cannot go on."
    ),
]

DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Your own Dask scheduler, tls://HOST:PORT or tcp://127.0.0.1:PORT: its workers read and hold the records.",
        show_default=False,
    ),
]


def curator(
    study: StudyArgument,
    key: KeyOption,
    test: Annotated[Path | None, typer.Option(help="A public test set (CSV or Parquet).")] = None,
    listen: Annotated[
        str | None, typer.Option(help="tcp://ADDRESS:PORT, if Charlie does not listen at the study's own address.")
    ] = None,
    out: OutOption = None,
    state: StateOption = None,
    no_journal: NoJournalOption = False,
    log_file: LogFileOption = None,
    log_level: LogLevelOption = Level.INFO,
    metrics: MetricsOption = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Run Charlie, the curator: listen, wait for the parties, serve the run, publish the model."""
    from masquerade_curator import run
    from masquerade_host.process import harden
    from masquerade_host.reporting import Reporting, reporting
    from masquerade_host.signals import stoppable

    harden()
    with stoppable(), reporting(Reporting(log_file, log_level, metrics)) as observe:
        result = run(
            study, key, out=out, test=test, listen=listen, state=state, journal=not no_journal, observe=observe
        )
    return _done(result, output_format)


def party(
    study: StudyArgument,
    data: Annotated[
        str,
        typer.Option(
            help="Your records: a CSV or Parquet file, a folder of Parquet files, or a query as in "
            "'sqlite:///srv/clinic.db SELECT * FROM visits ORDER BY id'. They stay here.",
            show_default=False,
        ),
    ],
    key: KeyOption,
    classifier: Annotated[
        str | None,
        typer.Option(
            help="In a protocol of votes: the classifier that votes for you, by its name in scikit-learn, as in "
            "'SVC(C=2.0)'."
        ),
    ] = None,
    out: OutOption = None,
    approved: Annotated[
        bool,
        typer.Option(
            "--approved",
            help="Ask nothing: a person has approved exactly this study ('masquerade approve'), and the site's "
            "policy allows it.",
        ),
    ] = False,
    state: StateOption = None,
    population: PopulationOption = None,
    stream: StreamOption = None,
    dask: DaskOption = None,
    no_journal: NoJournalOption = False,
    log_file: LogFileOption = None,
    log_level: LogLevelOption = Level.INFO,
    proxy: ProxyOption = None,
    metrics: MetricsOption = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Take part in a study as one of its parties: read it, agree to it, and stay until the model is there."""
    from masquerade_host.process import harden
    from masquerade_host.reporting import Reporting, reporting
    from masquerade_host.signals import stoppable
    from masquerade_party import run

    harden()
    with stoppable(), reporting(Reporting(log_file, log_level, metrics)) as observe:
        result = run(
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
    return _done(result, output_format)


def _done(path: Path, output_format: Format) -> Outcome:
    from masquerade.report import result_report
    from masquerade.statistics import read_statistics, statistics_report

    result = json.loads(path.read_text(encoding="utf-8"))
    statistics = read_statistics(path.parent)
    data, shown, stdout = {**result, "directory": str(path.parent)}, result_report(result), ""
    if statistics is not None:
        data["statistics"], stdout = statistics, statistics["features"]
        shown = (*shown, *statistics_report(statistics))
    return Outcome(
        f"the results are in {path.parent}",
        data,
        shown=shown if output_format is Format.TEXT else (),
        stdout=stdout,
    )
