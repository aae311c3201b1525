"""The options with which a participant's process is started, each declared once.

``masquerade party`` and ``python -m masquerade_party`` ask for the same options, and so do Charlie's two commands. The
fields of a class of options are a command's parameters (:func:`asking`), and :meth:`Options.words` is the command line
that has them.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from masquerade_host.process.progress import Level, Mode

__all__ = [
    "DebugOption",
    "Options",
    "ProgressOption",
    "ProxyOption",
    "StateOption",
    "StudyArgument",
    "_KeyOption",
    "asking",
]

R = TypeVar("R")

StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file.", show_default=False)]
_KeyOption = Annotated[
    Path, typer.Option("--key", help="Your secret keys ('masquerade keys new').", show_default=False)
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        help="The folder with this machine's privacy budget, policy and approvals. If not given, "
        "$XDG_STATE_HOME/masquerade or ~/.local/state/masquerade.",
        show_default=False,
    ),
]
ProxyOption = Annotated[
    str | None,
    typer.Option(
        "--proxy",
        envvar="MASQUERADE_PROXY",
        show_envvar=True,
        show_default=False,
        help="The way out of your network: http://HOST:PORT or socks5://HOST:PORT, with USER:PASSWORD@ before HOST if "
        "needed (better in the variable: other users see command lines). HTTPS_PROXY and the like are not read.",
    ),
]
ProgressOption = Annotated[Mode, typer.Option("--progress", help="The form of progress reports.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; it may show data.")]
_OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="A new directory for the results. One under runs/ if not given.", show_default=False),
]
_NoJournalOption = Annotated[
    bool,
    typer.Option(
        "--no-journal", help="Keep nothing on disk for a restart: if this process dies, the run cannot go on."
    ),
]
_LogFileOption = Annotated[
    Path | None,
    typer.Option(
        "--log-file",
        help="Also write the log to this file, with mode 0600. It may be moved away or emptied at any time.",
        show_default=False,
    ),
]
_LogLevelOption = Annotated[
    Level, typer.Option("--log-level", help="The minimum severity of events in the log. A terminal shows no log.")
]
_MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="ADDRESS",
        help="PORT or ADDRESS:PORT at which a monitoring system finds /metrics (Prometheus) and /healthz. With PORT "
        "alone, only programs on this machine can ask.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of every participant. What a field means, its help says."""

    study: StudyArgument
    key: _KeyOption
    out: _OutOption = None
    state: StateOption = None
    no_journal: _NoJournalOption = False
    log_file: _LogFileOption = None
    log_level: _LogLevelOption = Level.INFO
    metrics: _MetricsOption = None

    def words(self) -> list[str]:
        """Return the command line that has these options, without those that have their defaults."""
        words = [str(self.study)]
        for field in fields(self):
            value, option = getattr(self, field.name), f"--{field.name.replace('_', '-')}"
            if field.name != "study" and value != field.default:
                for one in value if isinstance(value, list) else [value]:
                    words += [option] if one is True else [option, str(one)]
        return words


O = TypeVar("O", bound=Options)  # noqa: E741  the letter of a type


def asking(options: type[O], play: Callable[..., R]) -> Callable[..., R]:
    """Return a command that asks for these options.

    Parameters
    ----------
    options : subclass of Options
    play : callable
        What the command does. Its first parameter is the options. The others are asked for as well, and its docstring
        is the command's help.
    """
    hints = get_type_hints(options, include_extras=True)
    everybodys = {field.name for field in fields(Options)}
    # What must be given comes first, and a participant's own options before those of all.
    own = sorted(fields(options), key=lambda field: (field.default is not MISSING, field.name in everybodys))
    _, *others = inspect.signature(play, eval_str=True).parameters.values()

    def command(**given: Any) -> R:
        chosen = options(**{field.name: given.pop(field.name) for field in own})
        return play(chosen, **given)

    parameters = [*(_parameter(field, hints[field.name]) for field in own), *others]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__, command.__name__ = play.__doc__, play.__name__
    return command


def _parameter(field: Field[Any], annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
    )
