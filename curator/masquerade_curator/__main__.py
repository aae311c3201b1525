"""``python -m masquerade_curator``: Charlie's process."""

import os
import sys

os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # a plugin would be somebody else's code beside a key

import typer

from masquerade_curator._run import run_with
from masquerade_curator.options import CuratorOptions
from masquerade_host.process.options import DebugOption, ProgressOption, asking
from masquerade_host.process.process import main
from masquerade_host.process.progress import Mode, Progress

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def curator(options: CuratorOptions, progress: ProgressOption = Mode.TEXT, debug: DebugOption = False) -> None:
    """Run Charlie, the curator, for one study."""
    del debug  # masquerade_host.process.process.main looks for it on the command line
    run_with(options, show=Progress(progress))


app.command()(asking(CuratorOptions, curator))

if __name__ == "__main__":
    sys.exit(main(app, sys.argv[1:], "masquerade_curator"))
