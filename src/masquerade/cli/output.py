"""The outcome of a command, and how it is shown: words on stderr, or one JSON object on stdout."""

import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade_core.errors import NAMING, MasqueradeError, with_spent

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["SCHEMA_VERSION", "Format", "FormatOption", "Outcome", "describe", "emit", "wants_json"]

SCHEMA_VERSION = 1

_TRACEBACK = "MASQUERADE_TRACEBACK"


class Format(StrEnum):
    """The two forms of an answer."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="Words on stderr, or JSON on stdout.")]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command.

    Parameters
    ----------
    message : str
        One sentence.
    data : mapping
        JSON values, for ``--format json``.
    hint : str
        The next thing to do.
    shown : sequence of renderable
        For people, on stderr; by default the message.
    stdout : str
        A key or a table, which goes to stdout for other programs to read.
    error_code, exit_code
        Set by a command that worked but found something wrong, such as ``doctor``.
    """

    message: str
    data: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""
    shown: "Sequence[RenderableType]" = ()
    stdout: str = ""
    error_code: str | None = None
    exit_code: int = 0

    def envelope(self) -> dict[str, Any]:
        """Return the object that ``--format json`` prints."""
        return {
            "schema_version": SCHEMA_VERSION,
            "status": "error" if self.exit_code else "ok",
            "error_code": self.error_code,
            "message": self.message,
            "hint": self.hint,
            "data": dict(self.data),
        }


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether the command line asks for JSON, even if the rest of it is wrong."""
    pairs = pairwise(arguments)
    return "--format=json" in arguments or ("--format", "json") in pairs


def describe(error: BaseException) -> Outcome:
    """Return the outcome for an error that ended a command, with the privacy that had been spent by then.

    An error that nobody foresaw is shown by type and place alone, for its text could hold a record.
    """
    outcome = _describe(error)
    return replace(outcome, message=with_spent(outcome.message, error))


def _describe(error: BaseException) -> Outcome:
    match error:
        case MasqueradeError():
            return Outcome(
                error.message,
                hint=error.hint,
                error_code=error.error_code,
                exit_code=error.exit_code,
                data=_more(error),
            )
        case typer.TyperException():
            context = getattr(error, "ctx", None)
            command = context.command_path if context is not None else "masquerade"
            return Outcome(error.format_message(), hint=f"see '{command} --help'", error_code="usage", exit_code=4)
        case KeyboardInterrupt() | typer.Abort():
            return Outcome("you stopped this process", error_code="run_failed", exit_code=1)
        case _:
            if os.environ.get(_TRACEBACK):
                traceback.print_exception(error, file=sys.stderr)
            frames = traceback.extract_tb(error.__traceback__)
            place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""  # noqa: PTH119
            return Outcome(
                f"this is a bug: {type(error).__name__}{place}",
                hint=f"please report it; {_TRACEBACK}=1 shows more (read it before you pass it on: it may show data)",
                error_code="bug",
                exit_code=5,
            )


def _more(error: MasqueradeError) -> dict[str, Any]:
    """Return what an error holds besides its sentence, as far as it has any: who is missing, at fault or suspected."""
    found: dict[str, Any] = {name: getattr(error, name, None) for name in NAMING}
    found["grounds"] = error.grounds.words if error.grounds is not None else None
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items() if value}


def emit(outcome: Outcome, *, as_json: bool) -> int:
    """Show an outcome and return its exit code."""
    if as_json:
        json.dump(outcome.envelope(), sys.stdout, indent=2, allow_nan=False)  # ASCII: stdout may know no more
        sys.stdout.write("\n")
    else:
        if outcome.stdout:
            sys.stdout.write(outcome.stdout)
            sys.stdout.flush()
        _show(outcome)
    return outcome.exit_code


def _show(outcome: Outcome) -> None:
    from rich.text import Text

    from masquerade.console import literal_console

    console = literal_console()
    for part in outcome.shown:
        console.print(part, soft_wrap=isinstance(part, Text))  # readers copy commands, so only the terminal wraps lines
    if outcome.exit_code:
        console.print(Text.assemble(("error:", "bold red"), f" {outcome.message}"), soft_wrap=True)
    elif not outcome.shown:
        console.print(outcome.message, soft_wrap=True)
    if outcome.hint:
        head = "what to do:" if outcome.exit_code else "next:"
        console.print(Text.assemble((head, "dim"), f" {outcome.hint}"), soft_wrap=True)
