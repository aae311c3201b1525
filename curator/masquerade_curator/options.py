"""The options with which Charlie's process is started."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from masquerade_host.process.options import Options

__all__ = ["CuratorOptions"]

_TestOption = Annotated[Path | None, typer.Option("--test", help="A public test set (CSV or Parquet).")]
_ListenOption = Annotated[
    str | None,
    typer.Option("--listen", help="tcp://ADDRESS:PORT, if Charlie does not listen at the study's own address."),
]


@dataclass(frozen=True, kw_only=True)
class CuratorOptions(Options):
    """The options of Charlie. What a field means, its help says."""

    test: _TestOption = None
    listen: _ListenOption = None
