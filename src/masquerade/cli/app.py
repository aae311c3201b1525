"""The commands, and the one place that turns a command's outcome into an exit code."""

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from functools import cache
from pkgutil import resolve_name
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from masquerade.cli.output import Outcome, describe, emit, wants_json
from masquerade_host.process.progress import was_logged

__all__ = ["app", "main", "run"]

_INTERRUPTED = 130  # typer returns it after Ctrl-C

_HIDDEN = ""
_COMMANDS = {
    "To try it": {"demo": "masquerade.cli.demo:demo"},
    "For a site that holds records": {
        "join": "masquerade.cli.join:join",
        "keys": "masquerade.cli.keys:app",
        "data": "masquerade.cli.data:app",
        "doctor": "masquerade.cli.doctor:doctor",
        "approve": "masquerade.cli.approve:approve",
        "party": "masquerade.cli.processes:party",
        "site": "masquerade.cli.site:app",
        "budget": "masquerade.cli.budget:app",
    },
    "For the coordinator of a study": {
        "study": "masquerade.cli.study:app",
        "invite": "masquerade.cli.invite:invite",
        "statement": "masquerade.cli.study:statement",
        "bounds": "masquerade.cli.bounds:bounds",
        "curator": "masquerade.cli.processes:curator",
    },
    "After a run": {
        "predict": "masquerade.cli.predict:predict",
        "report": "masquerade.cli.report:report",
        "verify": "masquerade.cli.verify:verify",
        "blame": "masquerade.cli.blame:blame",
        "export": "masquerade.cli.export:export",
    },
    "For research": {
        "simulate": "masquerade.cli.simulate:simulate",
        "reproduce": "masquerade_lab.commands.reproduce:reproduce",
        "audit": "masquerade_lab.commands.audit:audit",
    },
    _HIDDEN: {"evaluate": "masquerade.cli.evaluate:evaluate"},  # what `study new --measure` was called before
}
"""Every command and where it is, under who uses it. No module of this floor or of one below imports the laboratory."""
_PANELS = {name: panel for panel, commands in _COMMANDS.items() for name in commands}


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
    """All commands. Each is loaded when somebody asks for it, and all where somebody asks for another one or for help.

    So a party, Charlie and ``predict`` load nothing of the laboratory, nor of the other commands.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        self._load(*_PANELS)
        return list(_PANELS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._load(*([cmd_name] if cmd_name in _PANELS else _PANELS))
        return super().get_command(ctx, cmd_name)

    def _load(self, *names: str) -> None:
        some = typer.Typer(add_completion=False, rich_markup_mode=None)
        for name in names:
            panel = _PANELS[name]
            found = resolve_name(_COMMANDS[panel][name])
            if isinstance(found, typer.Typer):
                some.add_typer(found, name=name, cls=_Listed, rich_help_panel=panel)
            else:
                some.command(name, rich_help_panel=panel, hidden=panel == _HIDDEN)(found)
        self.commands.update(get_group(some).commands)


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


def _version(wanted: bool) -> None:
    if wanted:
        from masquerade_core import __version__

        sys.stdout.write(f"masquerade {__version__}\n")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
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
