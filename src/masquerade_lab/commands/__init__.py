"""The laboratory's commands. The command line finds this package by its name, and asks for ``app``."""

import typer

from masquerade_lab.commands.audit import audit
from masquerade_lab.commands.reproduce import reproduce

__all__ = ["app"]

app = typer.Typer(add_completion=False)
app.command()(reproduce)
app.command()(audit)
