"""How far a run has come: the round, the rate, the time that is left, and who is waited for.

The meter reads the events of a session and a clock. Rounds, names and counts of frames are public to all participants.
The rate and the waiting times are measured on this machine, and stay on it.
"""

import textwrap
import time
from collections import deque
from collections.abc import Callable

from masquerade_core.identity import CHARLIE
from masquerade_core.words import counted, listed
from masquerade_host.process.progress import JOINING

__all__ = ["PATIENCE", "Meter", "in_words", "spread", "wrapped"]

_WINDOW = 60.0  # seconds over which the rate is measured: an outage an hour ago does not change it
PATIENCE = 5.0
"""Seconds. A participant who is waited for for less is not named: somebody is waited for nearly always."""

_SHOWN = 8  # of those who are waited for, each in a line of its own
_MINUTE = 60
_HOUR = 3600


class Meter:
    """Follows a run by its events.

    Parameters
    ----------
    clock : callable
        Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._stage = ""
        self._here = ""
        self._rounds: deque[tuple[float, int]] = deque()
        self._total = 0
        self._waited_for: tuple[str, ...] = ()
        self._waiting = 0.0
        self._since: dict[str, float] = {}
        self._address = ""

    def note(self, event: str, fields: dict[str, str | float]) -> None:
        """Take one event of the session."""
        match event:
            case "stage":
                self._stage = str(fields["name"])
                self._rounds.clear()
            case "connected" if "joined" in fields:
                self._here = f"{fields['joined']} of {fields['parties']} parties are here"
            case "progress":
                self._count(int(fields["done"]), int(fields["total"]))
            case "traffic":
                self._wait(str(fields.get("waited_for", "")), float(fields.get("seconds", 0.0)))
            case "connecting":
                self._address = str(fields["address"])

    def _count(self, done: int, total: int) -> None:
        now = self._clock()
        if self._rounds and (done < self._rounds[-1][1] or total != self._total):
            self._rounds.clear()
        self._total = total
        self._rounds.append((now, done))
        while len(self._rounds) > 2 and now - self._rounds[0][0] > _WINDOW:  # noqa: PLR2004  a rate needs two points
            self._rounds.popleft()

    def _wait(self, names: str, seconds: float) -> None:
        """Note who is waited for. Something has come since if the time is shorter than before: all begin anew."""
        since = self._since if seconds >= self._waiting else {}
        self._waited_for = tuple(name for name in names.split(", ") if name)
        self._waiting = seconds
        self._since = {name: since.get(name, self._clock() - seconds) for name in self._waited_for}

    @property
    def rate(self) -> float | None:
        """Rounds a second over the last minute; ``None`` while it is not known, and after the last round."""
        if len(self._rounds) < 2 or self._rounds[-1][1] == self._total:  # noqa: PLR2004  a rate needs two points
            return None
        (since, first), (until, last) = self._rounds[0], self._rounds[-1]
        return (last - first) / (until - since) if last > first and until > since else None

    @property
    def left(self) -> float | None:
        """Seconds until the last round at this rate; ``None`` while that is not known."""
        if (rate := self.rate) is None:
            return None
        return (self._total - self._rounds[-1][1]) / rate

    def line(self) -> str:
        """Return all of it as one line for people; "" while nothing is known."""
        line = self._so_far()
        if self._waited_for and self._waiting >= PATIENCE:
            line += f"; waiting for {listed(self._waited_for)} for {in_words(self._waiting)}"
        return line

    def table(self, columns: int) -> list[str]:
        """Return all of it as lines of at most so many characters, with a line for each who is waited for.

        No word is cut that has room in a line: an address least of all.
        """
        lines = wrapped(self._so_far(), columns)
        late = [name for name in self._waited_for if self._waiting >= PATIENCE]
        for name in late[:_SHOWN]:
            lines.append(spread(f"waiting for {name}", in_words(self._clock() - self._since[name]), columns))
            if name == CHARLIE and self._address:
                lines += wrapped(f"at {self._address}", columns, "  ")
        if more := len(late) - _SHOWN:
            lines += [f"and for {counted(more, 'other')}"] * (more > 0)
        return lines

    def _so_far(self) -> str:
        parts = [self._stage] if self._stage else []
        if self._stage == JOINING and self._here:
            parts.append(self._here)
        if self._rounds:
            parts.append(f"round {self._rounds[-1][1]:,} of {self._total:,}")
        if (rate := self.rate) is not None:
            parts.append(f"{rate:.1f} rounds a second" if rate >= 1 else f"{1 / rate:.1f} s a round")
        if (left := self.left) is not None:
            parts.append(f"about {in_words(left)} left")
        if parts:
            parts.append(f"{in_words(self._clock() - self._begun)} so far")
        return ", ".join(parts)


def spread(left: str, right: str, columns: int) -> str:
    """Return a line with one text at its left end and another at its right."""
    return f"{left} {right.rjust(columns - len(left) - 1)}"


def wrapped(text: str, columns: int, indent: str = "") -> list[str]:
    """Return a text as lines. A word goes over two lines only if it is longer than one."""
    return textwrap.wrap(
        text, columns, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True
    )


def in_words(seconds: float) -> str:
    """Return a time in words, rounded: ``35 s``, ``2 min 5 s`` or ``3 hours 7 min``."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{counted(whole // _HOUR, 'hour')} {whole % _HOUR // _MINUTE} min"
