"""The options of a process that runs for long: its log, and what a monitoring system may ask."""

from pathlib import Path
from typing import Annotated

import typer

from masquerade_host.levels import Level

__all__ = ["LogFileOption", "LogLevelOption", "MetricsOption"]

LogFileOption = Annotated[
    Path | None,
    typer.Option(
        "--log-file",
        help="Also write the log to this file, with mode 0600. It may be moved away or emptied at any time.",
        show_default=False,
    ),
]
LogLevelOption = Annotated[
    Level, typer.Option("--log-level", help="Minimum severity of logged events. A terminal shows no log.")
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="ADDRESS",
        help="PORT or ADDRESS:PORT at which a monitoring system finds /metrics (Prometheus) and /healthz. With PORT "
        "alone, only programs on this machine can ask.",
        show_default=False,
    ),
]
