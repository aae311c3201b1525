"""What a run costs: seconds, messages and bytes, stage by stage."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import dropwhile
from typing import Any, Protocol

__all__ = ["JOINING", "Observer", "Relayed", "StageCost", "Stats", "quiet"]

JOINING = "joining"
"""The stage between a role's Join and its next own stage: mostly waiting for people."""


class Observer(Protocol):
    """Whoever wants to know how a run goes: a progress line, a live view, a log. Called from the I/O thread."""

    def __call__(self, event: str, /, **fields: str | float) -> None:
        """Take note of one event."""


def quiet(_event: str, /, **_fields: str | float) -> None:
    """Observe nothing."""


@dataclass(frozen=True)
class Relayed:
    """One box that Charlie passed on, and all that he knows of it."""

    source: str
    to: str
    type: str
    length: int


@dataclass
class StageCost:
    """One stage's cost; messages and bytes are frames in both directions, beats not counted."""

    name: str
    seconds: float = 0.0
    messages: int = 0
    bytes: int = 0


class Stats:
    """Counts frames under the stage in which they passed.

    Parameters
    ----------
    clock : callable
        Seconds, monotonic.
    observe : Observer
        Told when a stage begins and ends.
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
        """Close the stage before and begin the next, if it is another."""
        if self._open and self.stages[-1].name == name:
            return
        self.end()
        self.stages.append(StageCost(name))
        self._open = True
        self._observe("stage", name=name)

    def end(self) -> None:
        """Close the stage that runs, if any."""
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

    @property
    def messages(self) -> int:
        """All frames so far."""
        return sum(s.messages for s in self.stages)

    @property
    def bytes(self) -> int:
        """All bytes so far."""
        return sum(s.bytes for s in self.stages)

    def to_json(self, *, from_join: bool = False) -> dict[str, Any]:
        """Return the cost part of ``result.json``.

        Parameters
        ----------
        from_join : bool
            Leave out what was before the role joined. A party's training lasts as long as it has records.
        """
        stages, seconds = self.stages, self.seconds
        if from_join:
            stages = list(dropwhile(lambda stage: stage.name != JOINING, stages))
            seconds = sum(stage.seconds for stage in stages)
        return {
            "seconds": round(seconds, 3),
            "stages": [asdict(s) | {"seconds": round(s.seconds, 3)} for s in stages],
            "messages": self.messages,
            "bytes": self.bytes,
        }
