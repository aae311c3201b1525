"""How a process tells what it does: lines of JSON for programs, sentences for people; and nothing that is secret.

Everything a process says goes through here, and only fields on a list pass: names, stages, counts, sizes of frames,
codes, and the sentences of our own errors, which never hold a record.
"""

import secrets
import sys
import traceback
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TextIO

import structlog
import typer
from structlog.typing import EventDict, WrappedLogger

from masquerade_core.errors import MasqueradeError
from masquerade_core.spent import with_spent

__all__ = ["Mode", "Progress", "mode_of"]

_ALLOWED = frozenset(
    {
        *("event", "name", "party", "parties", "joined", "peer", "waited_for"),
        *("done", "total", "address", "count", "seconds", "messages", "bytes", "fields", "version", "result"),
        *("error_code", "exit_code", "error_id", "message", "hint"),
    }
)
_LONGEST = 1000  # characters of one field

_SENTENCES = {
    "listening": "Charlie listens at {address}.",
    "connecting": "Connecting to Charlie at {address}.",
    "unresolved": "Cannot resolve the name in {address}; trying again until the deadline.",
    "connected": "{party} is connected.",
    "came": "{party} is here: {joined} of {parties}.",
    "joined": "All {parties} parties are here.",
    "left": "{party} went away; waiting for it.",
    "stranger": "{count} connection(s) with a key that is not on the roster turned away.",
    "refused": "{party} was turned away: its study differs in {fields}.",
    "other_version": "{party} was turned away: it runs version {version}.",
    "stage": "{name} ...",
    "stage_done": "{name}: {seconds:.1f} s, {messages} messages, {bytes} bytes.",
    "done": "Done. The results are in {result}.",
}


class Mode(StrEnum):
    """Who is told."""

    JSON = "json"
    TEXT = "text"
    NONE = "none"


def mode_of(arguments: Sequence[str]) -> Mode:
    """Find ``--progress`` in a command line that may be wrong otherwise."""
    for i, word in enumerate(arguments):
        value = word.partition("=")[2] if word.startswith("--progress=") else "".join(arguments[i + 1 : i + 2])
        if word.startswith("--progress") and value in tuple(Mode):
            return Mode(value)
    return Mode.TEXT


def _withhold(_logger: WrappedLogger, _method: str, fields: EventDict) -> EventDict:
    """Let through what is on the list."""
    passed: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _ALLOWED and isinstance(value, (str, int, float)):
            passed[name] = value[:_LONGEST] if isinstance(value, str) else value
    return passed


def _sentence(_logger: WrappedLogger, _method: str, fields: EventDict) -> str:
    event = fields["event"]
    if event == "error":
        hint = f"\nwhat to do: {fields['hint']}" if fields.get("hint") else ""
        return f"error: {fields['message']}{hint}"
    key = "came" if event == "connected" and "joined" in fields else event
    key = "other_version" if event == "refused" and "version" in fields else key
    template = _SENTENCES.get(key)
    if template is None:
        raise structlog.DropEvent
    return template.format_map(fields)


class _Writable:
    """Escapes what a file's encoding has no letters for, such as a column's name on a terminal that is ASCII only."""

    def __init__(self, render: Callable[..., str | bytes], file: TextIO) -> None:
        self._render = render
        self._encoding = getattr(file, "encoding", None) or "utf-8"

    def __call__(self, logger: WrappedLogger, method: str, fields: EventDict) -> str:
        return (
            str(self._render(logger, method, fields)).encode(self._encoding, "backslashreplace").decode(self._encoding)
        )


class Progress:
    """An observer that speaks on stdout (JSON) or stderr (sentences).

    Parameters
    ----------
    mode : Mode
        ``NONE`` still shows an error.
    out, err : text file
        By default the process's.
    """

    def __init__(self, mode: Mode, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._mode = mode
        render = structlog.processors.JSONRenderer() if mode is Mode.JSON else _sentence
        file = (out or sys.stdout) if mode is Mode.JSON else (err or sys.stderr)
        self._err = err or sys.stderr
        self._logger = structlog.wrap_logger(
            structlog.WriteLogger(file), processors=[_withhold, _Writable(render, file)]
        )

    def __call__(self, event: str, /, **fields: str | float) -> None:
        """Tell one event; who reads it may have gone away, which is no reason to end a run."""
        if self._mode is Mode.NONE and event != "error":
            return
        try:
            self._logger.info(event, **fields)
        except OSError:
            self._mode = Mode.NONE

    def end(self, error: BaseException, *, debug: bool = False) -> int:
        """Tell how a process ends badly, and return its exit code.

        Parameters
        ----------
        error : BaseException
            Of one that nobody foresaw nothing is shown, for its text may hold a record.
        debug : bool
            Show the traceback on stderr after all.
        """
        match error:
            case MasqueradeError():
                fields: dict[str, str] = {"message": error.message, "hint": error.hint}
                code, exit_code = error.error_code, error.exit_code
                if waited_for := getattr(error, "waited_for", ()):
                    fields["waited_for"] = ", ".join(waited_for)
                if peer := getattr(error, "peer", ""):
                    fields["peer"] = peer
            case typer.TyperException():
                fields = {"message": error.format_message(), "hint": "--help shows how"}
                code, exit_code = "usage", 4
            case KeyboardInterrupt() | typer.Abort():
                fields, code, exit_code = {"message": "stopped by you", "hint": ""}, "run_failed", 1
            case _:
                error_id = secrets.token_hex(4)
                fields = {
                    "message": f"an error in this program itself, a {type(error).__name__} (id {error_id})",
                    "hint": "please report it; --debug shows where; read before you post it: it may show data",
                    "error_id": error_id,
                }
                code, exit_code = "bug", 5
        fields["message"] = with_spent(fields["message"], error)
        if debug:
            traceback.print_exception(error, file=self._err)
        self("error", error_code=code, exit_code=exit_code, **fields)
        return exit_code
