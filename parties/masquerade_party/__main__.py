"""``python -m masquerade_party``: a data owner's process."""

import os
import sys

os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # a plugin would be somebody else's code beside keys and records

import typer

from masquerade_host.process.options import DebugOption, ProgressOption, asking
from masquerade_host.process.process import main
from masquerade_host.process.progress import Mode, Progress
from masquerade_party._run import run_with
from masquerade_party.options import PartyOptions

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def party(options: PartyOptions, progress: ProgressOption = Mode.TEXT, debug: DebugOption = False) -> None:
    """Take part in one study with your records."""
    del debug  # masquerade_host.process.process.main looks for it on the command line
    run_with(options, show=Progress(progress))


app.command()(asking(PartyOptions, party))

if __name__ == "__main__":
    sys.exit(main(app, sys.argv[1:], "masquerade_party"))
