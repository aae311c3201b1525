"""The display of a running demonstration: participants, stages, times, messages and bytes."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from masquerade.demo.processes import Event
from masquerade.report import human_bytes, human_seconds, sparkline
from masquerade_core.study import CHARLIE
from masquerade_core.words import listed

__all__ = ["Lines", "Screen", "View", "view_for"]

_TRAINING = "training"
_ROWS = 8  # the most parties that get a line each
_TENTHS = 10  # plain lines report each tenth of the rounds

_QUIET = 1.0  # seconds without a line before one says what is waited for

_SPIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MARKS = {
    "starting": ("○", "cyan"),
    "training": ("◐", "yellow"),
    "waiting": ("◐", "yellow"),
    "listening": ("●", "green"),
    "connected": ("●", "green"),
    "done": ("✓", "bold green"),
    "failed": ("✗", "bold red"),
}


class View(Protocol):
    """A display of events."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""

    def tell(self, event: Event) -> None:
        """Show an event."""

    def tick(self) -> None:
        """Show what is waited for, if nothing was shown for a while. It is called many times a second."""


def view_for(console: Console, names: Sequence[str], stages: Sequence[str], lead: str) -> View:
    """Return a live screen for a terminal, and plain lines for anything else."""
    return Screen(console, names, stages, lead) if console.is_terminal else Lines(console)


class Lines:
    """Plain lines, for logs and pipes: connections, stages, each tenth of the rounds, and what is waited for."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rounds = _Rounds()
        self._tenth = 0
        self._starting: list[str] = []
        self._stage = ""
        self._since = self._said = time.monotonic()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""

    def tell(self, event: Event) -> None:
        """Print an event that Charlie reports; the parties' events are left out."""
        if event.name == "started":
            self._starting.append(event.who)
        if event.who != CHARLIE:
            return
        self._note(event)
        spoke = self._rounds.tell(event)
        if event.name != "progress":  # the objective follows its round, if it is public
            self._say_how_far()
        if not spoke and (line := _line(event.name, event.fields)):
            self._say(line)

    def tick(self) -> None:
        """Print who still starts, or how long a stage has taken, if nothing was printed for a while."""
        if time.monotonic() < self._said + _QUIET:
            return
        if self._starting:
            who = listed(self._starting) if len(self._starting) <= _ROWS else f"{len(self._starting)} processes"
            self._say(f"waiting for {who} to start")
        elif self._stage:
            self._say(f"{self._stage}: {time.monotonic() - self._since:.0f} s so far")

    def _note(self, event: Event) -> None:
        match event.name:
            case "listening" | "connected":
                there = str(event.fields.get("party", CHARLIE))
                self._starting = [who for who in self._starting if who != there]
            case "stage":
                self._stage, self._since = str(event.fields["name"]), time.monotonic()
            case _:
                pass

    def _say_how_far(self) -> None:
        done, total = self._rounds.done, self._rounds.total
        tenth = _TENTHS * done // total
        if self._tenth < tenth < _TENTHS:
            self._tenth = tenth
            pace = f": {said}" if (said := self._rounds.pace()) else ""
            self._say(f"round {done:,} of {total:,}{pace}")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


class _Rounds:
    """The progress of a stage with many rounds, as Charlie reports it."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 1
        self.objectives: list[float] = []
        self._first: tuple[int, float] | None = None
        self._told = 0.0

    def tell(self, event: Event) -> bool:
        """Note an event; return whether it was about rounds."""
        match event.name:
            case "progress":
                self.done, self.total = int(event.fields["done"]), max(1, int(event.fields["total"]))
                self._told = time.monotonic()
                # The first round waits for the precomputation of all parties, so time counts from its end.
                self._first = self._first or (self.done, self._told)
                return True
            case "objective":
                self.objectives.append(float(event.fields["message"]))
                return True
            case _:
                return False

    def pace(self) -> str:
        """Return the mean time of a round and the objective on the public test set, if they are known."""
        done, began = self._first or (0, 0.0)
        parts = [f"{human_seconds((self._told - began) / (self.done - done))} a round"] if self.done > done else []
        parts += [f"objective {self.objectives[-1]:.4g}"] if self.objectives else []
        return ", ".join(parts)


def _line(name: str, fields: Mapping[str, Any]) -> str:
    match name:
        case "listening":
            return f"charlie listens on {fields['address']}"
        case "connected":
            return f"{fields['party']} is connected ({fields.get('joined', '?')} of {fields.get('parties', '?')})"
        case "stage_done":
            cost = f"{fields['seconds']:.2f} s, {fields['messages']} messages, {human_bytes(fields['bytes'])}"
            return f"{fields['name']}: {cost}"
        case _:
            return ""


class Screen:
    """A screen that changes in place, for terminals."""

    def __init__(self, console: Console, names: Sequence[str], stages: Sequence[str], lead: str) -> None:
        self._console = console
        self._names = tuple(names)
        self._lead = lead
        self._states = dict.fromkeys((CHARLIE, *names), "starting")
        self._notes: dict[str, str] = {}
        self._open: dict[str, float] = {}
        self._done: dict[str, Mapping[str, Any]] = {}
        trained = tuple(s for s in stages if s == _TRAINING)
        self._stages = (*trained, "joining", *(s for s in stages if s != _TRAINING))
        self._rounds = _Rounds()
        self._passed: Mapping[str, Any] = {"messages": 0, "bytes": 0}
        self._trained: dict[str, float] = {}
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(console=console, refresh_per_second=12, get_renderable=self._draw)

    def __enter__(self) -> Self:
        """Take the screen."""
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last picture on the screen."""
        self._live.__exit__(kind, error, trace)

    def tick(self) -> None:
        """Do nothing: the screen draws itself anew, with the time that each stage has taken."""

    def tell(self, event: Event) -> None:
        """Note an event; the next picture shows it."""
        who, fields = event.who, event.fields
        if who == CHARLIE:
            self._rounds.tell(event)
        match event.name:
            case "listening":
                self._states[who], self._notes[who] = "listening", str(fields["address"])
            case "connecting":
                self._states[who] = "waiting"
            case "connected" if who == CHARLIE:
                self._states[str(fields["party"])] = "connected"
            case "traffic" if who == CHARLIE:
                self._passed = fields
            case "done":
                self._states[who] = "done"
            case "error":
                self._states[who] = "failed"
            case "exit" if fields["code"] != 0:
                self._states[who] = "failed"
            case "stage" | "stage_done":
                self._stage(event, str(fields["name"]))
            case _:
                pass

    def _stage(self, event: Event, stage: str) -> None:
        """Note a stage as Charlie reports it; the parties report training, and the slowest of them counts."""
        begins = event.name == "stage"
        if event.who == CHARLIE and begins:
            self._open[stage] = time.monotonic()
        elif event.who == CHARLIE:
            self._done[stage] = event.fields
        elif stage == _TRAINING and begins:
            self._states[event.who] = "training"
            self._open.setdefault(_TRAINING, time.monotonic())
        elif stage == _TRAINING:
            self._trained[event.who] = float(event.fields["seconds"])
            if len(self._trained) == len(self._names):
                self._done[stage] = {"seconds": max(self._trained.values()), "messages": 0, "bytes": 0}

    def _draw(self) -> RenderableType:
        return Group(Text(), self._participants(), Text(), self._progress())

    def _participants(self) -> RenderableType:
        if len(self._names) <= _ROWS:
            return Padding(Group(*map(self._participant, self._states)), (0, 0, 0, 2))
        marks = [Text.assemble(self._mark(who), who, " (lead)" * (who == self._lead)) for who in self._states]
        return Padding(Columns(marks, padding=(0, 2), equal=True), (0, 0, 0, 2))

    def _mark(self, who: str) -> tuple[str, str]:
        mark, style = _MARKS[self._states[who]]
        if self._states[who] == "starting":  # the interpreter and its libraries take a moment
            mark = _SPIN[int(time.monotonic() * 10) % len(_SPIN)]
        return f"{mark} ", style

    def _participant(self, who: str) -> Text:
        note = "lead: holds the parties' key" if who == self._lead else self._notes.get(who, "")
        width = max(map(len, self._states)) + 2
        name = (who.ljust(width), "bold" if who == CHARLIE else "")
        return Text.assemble(self._mark(who), name, self._states[who].ljust(11), (note, "dim"))

    def _progress(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("", width=1)
        table.add_column("stage", min_width=28, no_wrap=True)
        for name in ("seconds", "messages", "bytes"):
            table.add_column(name, justify="right", min_width=8, no_wrap=True)
        for stage in self._stages:
            if stage in self._done:
                done = self._done[stage]
                cost = [f"{done['seconds']:.2f}", *_traffic(done)]
                table.add_row(Text("✓", style="green"), stage, *cost)
            elif stage in self._open:
                since = time.monotonic() - self._open[stage]
                far = f" {self._rounds.done:,} of {self._rounds.total:,}" if self._rounds.done else ""
                table.add_row(self._spinner, Text(stage + far, style="bold"), Text(f"{since:.1f}", style="cyan"))
            else:
                table.add_row(Text("·", style="dim"), Text(stage, style="dim"))
        sums = {key: sum(done[key] for done in self._done.values()) for key in ("messages", "bytes")}
        # Charlie reports his sums every few seconds, and those of a stage at its end: the larger is the newer.
        sums = {key: max(value, self._passed[key]) for key, value in sums.items()}
        table.add_row("", Text("through Charlie's hands", style="dim"), "", *_traffic(sums))
        parts: list[RenderableType] = [table]
        if self._rounds.done:
            curve = sparkline(self._rounds.objectives) if self._rounds.objectives else ""
            parts.append(Text.assemble(f"\n   {self._rounds.pace()}  ", (curve, "cyan")))
        return Padding(Group(*parts), (0, 0, 0, 2))


def _traffic(cost: Mapping[str, Any]) -> tuple[str, str]:
    return (str(cost["messages"]), human_bytes(cost["bytes"])) if cost["messages"] else ("", "")
