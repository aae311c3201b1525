"""The laboratory's commands. The command line finds this package by its name, and asks for ``app``."""

import typer

from masquerade.cli.app import RESEARCH
from masquerade_lab.commands.audit import audit
from masquerade_lab.commands.reproduce import reproduce

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)
app.command(rich_help_panel=RESEARCH)(reproduce)
app.command(rich_help_panel=RESEARCH)(audit)
