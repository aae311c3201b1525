"""How a process reports what it does: lines of JSON for programs, sentences for people, and nothing secret.

A session reports *events*: a stage begins, a party has joined, a connection is lost. This module says how severe each
is, how far a long stage has come, and what each stage cost in seconds, messages and bytes. It also knows whether stderr
has already shown the last event.

Everything that a process says goes through this module. Only fields on a list pass: names, stages, counts, sizes of
frames, codes, and the sentences of this program's own errors, which never hold a record.
"""

import json
import math
import secrets
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import dropwhile
from typing import Any, Protocol, TextIO

import typer

from masquerade_core.errors import NAMING, MasqueradeError, with_spent

__all__ = [
    "JOINING",
    "Fields",
    "Level",
    "Logged",
    "Mode",
    "News",
    "Observer",
    "Progress",
    "Relayed",
    "Sink",
    "StageCost",
    "Stats",
    "end_of",
    "mode_of",
    "passed",
    "put",
    "quiet",
    "sentence",
    "was_logged",
]


# --- Log severity ---------------------------------------------------------------------


class Level(StrEnum):
    """How grave an event is; a log shows those of its own level and the graver ones."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    def shows(self, other: "Level") -> bool:
        """Say whether a log of this level shows events of the other one."""
        order = tuple(Level)
        return order.index(other) >= order.index(self)


class Logged(str):
    """A note on the error that ended a run: the log on stderr has it, so nobody needs to say it there again."""

    __slots__ = ()


def was_logged(error: BaseException) -> bool:
    """Say whether the log on stderr tells of this error."""
    return any(isinstance(note, Logged) for note in getattr(error, "__notes__", ()))


# --- Cost by stage --------------------------------------------------------------------

JOINING = "joining"
"""The stage between a role's Join and its own next stage: most of it is waiting for people."""


class Observer(Protocol):
    """Gets the events of a run, for a progress line, a live view or a log. The I/O thread calls it."""

    def __call__(self, event: str, /, **fields: str | float) -> None:
        """Take one event."""


def quiet(_event: str, /, **_fields: str | float) -> None:
    """Ignore every event."""


@dataclass(frozen=True)
class Relayed:
    """One box that Charlie relayed: its source, recipient, type and length are all that he knows of it."""

    source: str
    to: str
    type: str
    length: int


@dataclass
class StageCost:
    """The cost of one stage. Frames in both directions count as messages and bytes; beats do not.

    ``ciphertexts`` counts those that this participant's role sent, once for each recipient.
    """

    name: str
    seconds: float = 0.0
    messages: int = 0
    bytes: int = 0
    ciphertexts: int = 0


class Stats:
    """Counts each frame under the stage in which it passed.

    Parameters
    ----------
    clock : callable
        Seconds, monotonic.
    observe : Observer
        Gets an event when a stage begins and when it ends.
    """

    def __init__(self, clock: Callable[[], float], observe: Observer) -> None:
        self._clock = clock
        self._observe = observe
        self._begun = self._entered = clock()
        self._open = False
        self.stages: list[StageCost] = []
        self.beats = 0
        self.seconds = 0.0

    def stage(self, name: str) -> None:
        """End the current stage and begin the next, if it is another one."""
        if self._open and self.stages[-1].name == name:
            return
        self.end()
        self.stages.append(StageCost(name))
        self._open = True
        self._observe("stage", name=name)

    def end(self) -> None:
        """End the current stage, if there is one."""
        now = self._clock()
        self.seconds = now - self._begun
        if self._open:
            last = self.stages[-1]
            last.seconds = now - self._entered
            self._open = False
            self._observe("stage_done", **asdict(last))
        self._entered = now

    def count(self, size: int) -> None:
        """Count one frame of ``size`` bytes."""
        if not self.stages:
            self.stage(JOINING)
        self.stages[-1].messages += 1
        self.stages[-1].bytes += size

    def encrypted(self, ciphertexts: int) -> None:
        """Count ciphertexts that the role sends."""
        if ciphertexts:
            self.stages[-1].ciphertexts += ciphertexts

    @property
    def messages(self) -> int:
        """The number of frames so far."""
        return sum(s.messages for s in self.stages)

    @property
    def bytes(self) -> int:
        """The number of bytes so far."""
        return sum(s.bytes for s in self.stages)

    def to_json(self, *, of_party: bool = False) -> dict[str, Any]:
        """Return the cost part of ``result.json``.

        Parameters
        ----------
        of_party : bool
            A party's times show how many records it has. So its stages have none, what was before the role joined is
            left out, and the whole seconds from then on, rounded up, are those that everybody takes.
        """
        stages, seconds = [asdict(s) | {"seconds": round(s.seconds, 3)} for s in self.stages], round(self.seconds, 3)
        if of_party:
            joined = list(dropwhile(lambda stage: stage["name"] != JOINING, stages))
            seconds = float(math.ceil(sum(stage.pop("seconds") for stage in joined)))
            stages = joined
        return {
            "seconds": seconds,
            "stages": stages,
            "messages": self.messages,
            "bytes": self.bytes,
            "ciphertexts": sum(stage.ciphertexts for stage in self.stages),
        }


# --- Progress events ------------------------------------------------------------------

_EVERY = 0.5  # seconds between two reports of a long stage's progress


class News:
    """Reports to an observer, not too often.

    Parameters
    ----------
    clock : callable
        Seconds, monotonic.
    observe : Observer

    Attributes
    ----------
    heard : float or None
        At a party: when Charlie's last frame came.
    """

    def __init__(self, clock: Callable[[], float], observe: Observer) -> None:
        self._clock = clock
        self._observe = observe
        self._next = 0.0
        self.heard: float | None = None

    def progress(self, done: int, total: int) -> None:
        """Report how many rounds of a long stage are over; the last one always, others now and then."""
        now = self._clock()
        if now >= self._next or done == total:
            self._next = now + _EVERY
            self._observe("progress", done=done, total=total)

    def traffic(self, stats: Stats, missing: tuple[str, ...], waited: float) -> None:
        """Report what passed so far, and for whom the role has waited for how long: the signs that this thread runs."""
        passed = {"messages": stats.messages, "bytes": stats.bytes}
        silence = 0.0 if self.heard is None else self._clock() - self.heard
        who = ", ".join(missing)
        self._observe("traffic", **passed, waited_for=who, seconds=round(waited, 1), silence=round(silence, 1))


# --- Progress --------------------------------------------------------------------

Fields = Mapping[str, str | float]
"""An event and its fields, as :func:`passed` lets them through."""

_ALLOWED = frozenset(
    {
        *("event", "name", "party", "parties", "joined"),
        *(*NAMING, "grounds"),
        *("clamped", "filled", "left", "reason"),
        *("done", "total", "address", "count", "seconds", "messages", "bytes", "fields", "version", "result"),
        *("error", "low", "high", "epsilon", "population", "file"),
        *("error_code", "exit_code", "error_id", "message", "hint"),
    }
)
_LONGEST = 1000  # characters of one field

_SENTENCES = {
    "listening": "Charlie listens at {address}.",
    "connecting": "Connecting to Charlie at {address}.",
    "unresolved": "Cannot resolve the name in {address}; trying again until the deadline.",
    "unreachable": "Charlie cannot be reached at {address}; {left} seconds are left before this party gives up.",
    "unconfirmed": "The run is over, but {waited_for} did not confirm it yet; Charlie waits {left} seconds more.",
    "cut_off": "The connection to {address} is lost; making a new one.",
    "reconnected": "Reconnected to {address}.",
    "turned_away": "Refused a process of {party} ({reason}); the run goes on.",
    "unseated": "Another process of {party} took its place, for the previous one did not answer; the run goes on.",
    "connected": "{party} is connected.",
    "came": "{party} is here: {joined} of {parties}.",
    "joined": "All {parties} parties are here.",
    "left": "{party} disconnected; Charlie waits for it.",
    "lost": "{party} no longer takes part; the run goes on without it.",
    "stranger": "Connections turned away because their key is not in the study: {count}.",
    "refused": "{party} was turned away: its study differs in {fields}.",
    "other_version": "{party} was turned away: its program has the wire and protocol numbers {version}.",
    "stage": "{name} ...",
    "stage_done": "{name}: {seconds:.1f} s, {messages} messages, {bytes} bytes.",
    "repaired": "Of your records' cells, {clamped} lay out of bounds and were moved to the bound, and {filled} were "
    "missing or unreadable and were filled with the study's value. This process tells nobody but you.",
    "one_class": "All of your records have the same label. If that is not so, your file may write the study's positive "
    "value in another way. This process tells nobody but you, and takes part.",
    "same_answer": "The model gives nearly all of your own records the same answer, although their labels differ. Its "
    "answers tell nothing; its scores may still rank records. This process tells nobody but you.",
    "learned": "The release rests on {total} records of all parties.",
    "measured": "On records that were held back the model's error is {error}; {low} to {high} with 95 % confidence.",
    "paid": "Of the budget of {population!r}, epsilon = {epsilon} is spent, this study included; {left} is left.",
    "kept_keys": "This study names older keys of yours, so those in {file} are used.",
    "metrics": "Metrics are at {address}.",
    "done": "Done. The results are in {result}.",
}


class Mode(StrEnum):
    """The form in which a process reports what it does."""

    JSON = "json"
    TEXT = "text"
    NONE = "none"


def mode_of(arguments: Sequence[str]) -> Mode:
    """Find the value of ``--progress`` in a command line whose other words may be wrong."""
    for i, word in enumerate(arguments):
        value = word.partition("=")[2] if word.startswith("--progress=") else "".join(arguments[i + 1 : i + 2])
        if word.startswith("--progress") and value in tuple(Mode):
            return Mode(value)
    return Mode.TEXT


class Sink(Protocol):
    """A file that lines are written to."""

    def write(self, text: str, /) -> object:
        """Write a text."""

    def flush(self) -> None:
        """Let nothing wait in this process."""


def passed(event: str, fields: Mapping[str, object]) -> Fields:
    """Return the fields of an event that are on the list, and the event itself as the last one."""
    return {
        name: value[:_LONGEST] if isinstance(value, str) else value
        for name, value in (*fields.items(), ("event", event))
        if name in _ALLOWED and isinstance(value, (str, int, float))
    }


def sentence(fields: Fields) -> str | None:
    """Return the sentence for an event; None where it has none."""
    event = fields["event"]
    if event == "error":
        hint = f"\nwhat to do: {fields['hint']}" if fields.get("hint") else ""
        return f"error: {fields['message']}{hint}"
    key = "came" if event == "connected" and "joined" in fields else event
    key = "other_version" if event == "refused" and "version" in fields else key
    template = _SENTENCES.get(str(key))
    return None if template is None else template.format_map(fields)


def put(file: Sink, line: str) -> None:
    """Write a line. Letters that the file's encoding lacks, as a column's name may have them, are escaped."""
    encoding = getattr(file, "encoding", None) or "utf-8"
    file.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    file.flush()


class Progress:
    """An observer that writes JSON to stdout, or sentences to stderr.

    Parameters
    ----------
    mode : Mode
        With ``NONE`` only an error is shown.
    out, err : text file
        By default those of the process.
    """

    def __init__(self, mode: Mode, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._mode = mode
        self._out, self._err = out or sys.stdout, err or sys.stderr

    def __call__(self, event: str, /, **fields: str | float) -> None:
        """Report one event. A reader who has gone away does not end the run."""
        if self._mode is Mode.NONE and event != "error":
            return
        told = passed(event, fields)
        try:
            if self._mode is Mode.JSON:
                put(self._out, json.dumps(told))
            elif (line := sentence(told)) is not None:
                put(self._err, line)
        except OSError:
            self._mode = Mode.NONE

    def end(self, error: BaseException, *, debug: bool = False) -> int:
        """Report the error that ends a process, and return the exit code.

        Parameters
        ----------
        error : BaseException
        debug : bool
            Show the traceback on stderr all the same.
        """
        fields = end_of(error)
        if debug:
            traceback.print_exception(error, file=self._err)
        self("error", **fields)
        return int(fields["exit_code"])


def end_of(error: BaseException) -> dict[str, str | int]:
    """Return the fields of the event "error". The text of an unexpected error is left out, for it may hold a record."""
    fields: dict[str, str | int]
    match error:
        case MasqueradeError():
            fields = {"message": error.message, "hint": error.hint}
            code, exit_code = error.error_code, error.exit_code
            fields |= _named_in(error)
        case typer.TyperException():
            fields = {"message": error.format_message(), "hint": "--help shows what is allowed"}
            code, exit_code = "usage", 4
        case KeyboardInterrupt() | typer.Abort():
            fields = {"message": "you stopped this process", "hint": ""}
            code, exit_code = "run_failed", 1
        case _:
            error_id = secrets.token_hex(4)
            fields = {
                "message": f"this program has a bug: it raised a {type(error).__name__} (id {error_id})",
                "hint": "please report it; --debug shows where; read that before you post it, for it may show data",
                "error_id": error_id,
            }
            code, exit_code = "bug", 5
    fields["message"] = with_spent(str(fields["message"]), error)
    return {"error_code": code, "exit_code": exit_code, **fields}


def _named_in(error: MasqueradeError) -> dict[str, str]:
    """Return whom an error names, in which part, and on what grounds."""
    fields = {}
    for name in NAMING:
        if value := getattr(error, name, ()):
            fields[name] = value if isinstance(value, str) else ", ".join(value)
    if error.grounds is not None:
        fields["grounds"] = error.grounds.words
    return fields
