"""The options with which a party's process is started."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from masquerade_host.process.options import Options, ProxyOption

__all__ = ["AcceptOption", "PartyOptions", "PopulationOption", "StreamOption"]

AcceptOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="COLUMN",
        help="Use the records although this column looks like a mistake; 'lines' for lines that are no records. May be "
        "given several times.",
        show_default=False,
    ),
]

PopulationOption = Annotated[
    str | None,
    typer.Option(
        "--population",
        help="The population whose budget pays for the study. If not given, that of the site's policy, of these "
        "records so far, or 'default'.",
        show_default=False,
    ),
]
StreamOption = Annotated[
    Path | None,
    typer.Option(
        "--stream",
        help="A folder on a disk: keep the records there, in a scratch file without a name, and not in memory.",
        show_default=False,
    ),
]
_DataOption = Annotated[
    str,
    typer.Option(
        "--data",
        help="Your records: a CSV or Parquet file, a folder of Parquet files, or a query as in "
        "'sqlite:///srv/clinic.db SELECT * FROM visits ORDER BY id'. They stay here.",
        show_default=False,
    ),
]
_ClassifierOption = Annotated[
    str | None,
    typer.Option(
        "--classifier",
        help="In a protocol of votes: the classifier that votes for you, by its name in scikit-learn, as in "
        "'SVC(C=2.0)'.",
    ),
]
_ApprovedOption = Annotated[
    bool,
    typer.Option(
        "--approved",
        help="Ask nothing: a person has approved exactly this study ('masquerade approve'), and the site's policy "
        "allows it.",
    ),
]
_DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Your own Dask scheduler, tls://HOST:PORT or tcp://127.0.0.1:PORT: its workers read and hold the records.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class PartyOptions(Options):
    """The options of a party. What a field means, its help says."""

    data: _DataOption
    classifier: _ClassifierOption = None
    approved: _ApprovedOption = False
    population: PopulationOption = None
    stream: StreamOption = None
    accept: AcceptOption = None
    dask: _DaskOption = None
    proxy: ProxyOption = None
