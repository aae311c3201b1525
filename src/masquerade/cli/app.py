"""The commands, and the one place that turns a command's outcome into an exit code."""

import atexit
import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from masquerade.cli import budget, data, keys, site, study
from masquerade.cli.approve import approve
from masquerade.cli.blame import blame
from masquerade.cli.bounds import bounds
from masquerade.cli.demo import demo
from masquerade.cli.doctor import doctor
from masquerade.cli.evaluate import evaluate
from masquerade.cli.export import export
from masquerade.cli.invite import invite
from masquerade.cli.join import join
from masquerade.cli.output import Outcome, describe, emit, wants_json
from masquerade.cli.predict import predict
from masquerade.cli.report import report
from masquerade.cli.run import curator, party
from masquerade.cli.simulate import simulate
from masquerade.cli.verify import verify
from masquerade_host.process.progress import was_logged

__all__ = ["RESEARCH", "app", "main", "run"]

_INTERRUPTED = 130  # typer returns it after Ctrl-C

_LABORATORY = "masquerade_lab.commands"
"""Where the commands of the laboratory are. No module of this floor or of one below imports the laboratory."""


class _Listed(TyperGroup):
    """Commands that ``--help`` lists under who uses them, each with the first sentence about it."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if not command.hidden:
                rows = panels.setdefault(command.rich_help_panel or "Commands", [])
                rows.append((name, command.get_short_help_str(sys.maxsize)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


class _Commands(_Listed):
    """The commands here and, where somebody asks for another or for all, those of the laboratory.

    A party, Charlie and ``predict`` load nothing of the laboratory: each asks for a command that is here.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        self._add_laboratory()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._add_laboratory()
        return super().get_command(ctx, cmd_name)

    def _add_laboratory(self) -> None:
        self.commands.update(get_group(import_module(_LABORATORY).app).commands)


app = typer.Typer(
    name="masquerade",
    cls=_Commands,
    help="Several data owners and an untrusted curator, Charlie, learn one classifier together. Nobody sees anybody "
    "else's records.",
    epilog="Begin with: masquerade demo",
    add_completion=False,
    rich_markup_mode=None,  # rich's help takes as long as all the rest of --help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_TRY, _SITE, _COORDINATOR = "To try it", "For a site that holds records", "For the coordinator of a study"
_AFTERWARDS, RESEARCH = "After a run", "For research"
_COMMANDS: tuple[tuple[str, str, Callable[..., Any] | typer.Typer], ...] = (
    (_TRY, "demo", demo),
    (_SITE, "join", join),
    (_SITE, "keys", keys.app),
    (_SITE, "data", data.app),
    (_SITE, "doctor", doctor),
    (_SITE, "approve", approve),
    (_SITE, "party", party),
    (_SITE, "site", site.app),
    (_SITE, "budget", budget.app),
    (_COORDINATOR, "study", study.app),
    (_COORDINATOR, "invite", invite),
    (_COORDINATOR, "statement", study.statement),
    (_COORDINATOR, "bounds", bounds),
    (_COORDINATOR, "curator", curator),
    (_AFTERWARDS, "predict", predict),
    (_AFTERWARDS, "report", report),
    (_AFTERWARDS, "verify", verify),
    (_AFTERWARDS, "blame", blame),
    (_AFTERWARDS, "export", export),
    (RESEARCH, "simulate", simulate),
)
"""Every command of this floor under who uses it, as ``masquerade --help`` lists them."""

for _panel, _name, _command in _COMMANDS:
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name, cls=_Listed, rich_help_panel=_panel)
    else:
        app.command(_name, rich_help_panel=_panel)(_command)
app.command(hidden=True)(evaluate)  # what `study new --measure` was called before


def _version(wanted: bool) -> None:
    if wanted:
        from masquerade_core import __version__

        sys.stdout.write(f"masquerade {__version__}\n")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = None,
) -> None:
    del version


@cache
def _built() -> Any:
    """Return the commands with their options, which typer would read out of all functions anew for each line."""
    return get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Nothing is raised, and stdout gets the answer alone."""
    as_json = wants_json(arguments)
    try:
        outcome = _built()(list(arguments) or ["--help"], prog_name="masquerade", standalone_mode=False)
        if outcome == _INTERRUPTED:
            raise KeyboardInterrupt  # noqa: TRY301
        return emit(outcome, as_json=as_json) if isinstance(outcome, Outcome) else int(outcome or 0)
    except BrokenPipeError:  # the reader of our stdout has gone: head, a closed pager
        return 1
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the process's outermost edge
        outcome = describe(error)
        return outcome.exit_code if was_logged(error) and not as_json else emit(outcome, as_json=as_json)


def main() -> None:
    """Run the command line of this process."""
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # a plugin would be somebody else's code beside keys
    atexit.register(gc.freeze)  # the interpreter then ends without a last garbage collection
    sys.exit(run(sys.argv[1:]))
